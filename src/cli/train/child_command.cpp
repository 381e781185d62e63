#include "cli/train/child_command.h"

#include "launch/internal/shell_quote.h"

#include <cairn/base/error.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace cairn::cli {
namespace {

std::filesystem::path cairn_program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() /
      "cairn";
}

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

} // namespace

ChildCommand::ChildCommand(
    const Arguments& arguments,
    const std::optional<std::filesystem::path>& log) {
  const std::string program = cairn_program().string();
  std::vector<char*> words{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) {
    words.push_back(const_cast<char*>(argument.c_str()));
  }
  words.push_back(nullptr);
  int output = -1;
  if (log) {
    output = ::open(log->c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (output < 0) {
      throw DataError(
          {.what = "cannot write the log",
           .where = log->string(),
           .values = std::strerror(errno)});
    }
  }
  process_ = ::fork();
  if (process_ == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM); // also when we end by Ctrl-C
    if (output >= 0) {
      ::dup2(output, STDOUT_FILENO);
      ::dup2(output, STDERR_FILENO);
    }
    ::execv(program.c_str(), words.data());
    ::_exit(127);
  }
  const int trouble = errno;
  if (output >= 0) {
    ::close(output);
  }
  if (process_ < 0) {
    throw Error(
        {.what = "cannot start another process",
         .where = program,
         .values = std::strerror(trouble)});
  }
  // The child does it as well: either may come first.
  ::setpgid(process_, process_);
}

ChildCommand::~ChildCommand() {
  if (!code_) {
    kill();
  }
}

std::optional<int> ChildCommand::poll() {
  int status = 0;
  if (!code_ && ::waitpid(process_, &status, WNOHANG) == process_) {
    code_ = code_of(status);
  }
  return code_;
}

int ChildCommand::wait() {
  int status = 0;
  while (!code_) {
    if (::waitpid(process_, &status, 0) == process_) {
      code_ = code_of(status);
    } else if (errno != EINTR) {
      code_ = 127;
    }
  }
  return *code_;
}

void ChildCommand::kill() {
  ::kill(-process_, SIGKILL);
  wait();
}

void ChildCommand::stop() {
  if (!code_) {
    ::kill(process_, SIGTERM);
    wait();
  }
}

std::string command_text(const Arguments& arguments, std::size_t indent) {
  constexpr std::size_t width = 92;
  std::string text = "cairn";
  std::size_t column = indent + text.size();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string word = launch::shell_quote(arguments[i]);
    const bool is_flag = word.starts_with("--");
    // A flag stays with its value.
    const std::size_t needed = word.size() + 1 +
        (is_flag && i + 1 < arguments.size() ? arguments[i + 1].size() + 1 : 0);
    if (is_flag && column + needed > width) {
      text += " \\\n" + std::string(indent + 2, ' ');
      column = indent + 2;
    } else {
      text += ' ';
      ++column;
    }
    text += word;
    column += word.size();
  }
  return text;
}

} // namespace cairn::cli
