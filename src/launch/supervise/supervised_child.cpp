#include "launch/supervise/supervised_child.h"

#include "launch/supervise/exit_status.h"

#include <cairn/base/file.h>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <utility>

namespace cairn::launch {
namespace {

constexpr std::size_t most_last_lines = 20;
constexpr std::size_t longest_last_line = 2000;

} // namespace

SupervisedChild::SupervisedChild(
    const ChildSpec& spec,
    const sigset_t& signal_mask,
    const Logger& logger)
    : spec_(&spec) {
  if (!spec.log_file.empty()) {
    log_file_ = open_file(
        spec.log_file,
        O_WRONLY | O_CREAT | (spec.append_to_log ? O_APPEND : O_TRUNC));
    log_.emplace(log_file_.get(), spec.log_file.string(), logger);
  }
  ProcessSpec lent = spec.process;
  if (spec.kind == ChildSpec::Kind::rank) {
    error_memory_ = make_error_memory();
  }
  if (error_memory_) {
    lent.error_memory = error_memory_.get();
    lent.environment.push_back(
        fmt::format("{}={}", error_memory_variable, error_memory_.get()));
  }
  auto process = start_process(lent, signal_mask);
  pid_ = process.pid;
  started_ = process.started;
  input_ = std::move(process.input);
  if (input_ && spec.kind == ChildSpec::Kind::launcher) {
    // A pipe holds it. A launcher that is gone says so in another way.
    const std::string line = spec.first_line + "\n";
    [[maybe_unused]] const auto written =
        ::write(input_.get(), line.data(), line.size());
  }
  streams_.push_back({std::move(process.output), 1, {}});
  streams_.push_back({std::move(process.error), 2, {}});
}

void SupervisedChild::ended(int status) {
  status_ = status;
  // If only ssh has died, the launcher at its other end must learn of it.
  input_.reset();
}

void SupervisedChild::stopped(int signal) {
  stop_ = {.signal = signal, .since = std::chrono::steady_clock::now()};
}

std::optional<std::chrono::steady_clock::time_point> SupervisedChild::
    stopped_since() const {
  return running() && stop_ ? std::optional(stop_->since) : std::nullopt;
}

void SupervisedChild::forgive(std::chrono::steady_clock::duration time) {
  if (stop_) {
    stop_->since += time;
  }
}

void SupervisedChild::ask_to_stop(int signal) {
  if (spec_->kind == ChildSpec::Kind::rank) {
    ::kill(-pid_, signal);
    ::kill(-pid_, SIGCONT); // a suspended process takes no signal before that
  } else if (input_) {
    const char byte = static_cast<char>(signal);
    // If its launcher is gone, the closed pipe says the same.
    [[maybe_unused]] const auto written = ::write(input_.get(), &byte, 1);
    input_.reset();
  }
}

void SupervisedChild::kill() {
  ::kill(-pid_, SIGKILL);
}

void SupervisedChild::remember(std::string_view line) {
  if (log_) {
    // Writes whole lines, since the lines of the two streams would mix
    // otherwise.
    log_->write(
        line.ends_with('\n') ? std::string(line) : std::string(line) + "\n");
  }
  const bool cut = line.size() > longest_last_line;
  auto shown = labelled(*spec_, line.substr(0, longest_last_line));
  shown.pop_back();
  keep_last_line(cut ? shown + "…" : shown);
}

void SupervisedChild::keep_last_line(std::string labelled_line) {
  last_lines_.push_back(std::move(labelled_line));
  if (last_lines_.size() > most_last_lines) {
    last_lines_.pop_front();
  }
}

bool SupervisedChild::killed_by_signal() const {
  return status_ && WIFSIGNALED(*status_);
}

std::optional<HandedError> SupervisedChild::handed_error() const {
  return error_memory_ ? cairn::handed_error(error_memory_.get())
                       : std::nullopt;
}

Failure SupervisedChild::failure() const {
  const std::chrono::duration<double> age =
      std::chrono::steady_clock::now() - started_;
  const int status = status_.value_or(0);
  // A launcher reports a failing rank before it ends itself. These codes are
  // the launcher's own for a ConfigError, and a shell's when it finds no
  // launcher.
  const int code = exit_code_of(status);
  const bool before_start = spec_->kind == ChildSpec::Kind::launcher &&
      (code == 2 || code == 126 || code == 127);
  std::string how = status_ ? describe_exit(status) : "has failed";
  if (const auto since = stopped_since()) {
    const std::chrono::duration<double> still =
        std::chrono::steady_clock::now() - *since;
    how = fmt::format(
        "was stopped by {} and has done nothing for {:.1f} s; ended",
        signal_name(stop_->signal),
        still.count());
  }
  return {
      .what = fmt::format(
          "{} (pid {}, host {}) {} after {:.1f} s",
          spec_->name,
          pid_,
          spec_->host,
          how,
          age.count()),
      .exit_code = status_ ? code : 1,
      .last_lines = last_lines(),
      .before_start = before_start};
}

std::vector<std::string> SupervisedChild::last_lines() const {
  return {last_lines_.begin(), last_lines_.end()};
}

namespace {

std::string ended_line(std::string line) {
  if (!line.ends_with('\n')) {
    line += '\n';
  }
  return line;
}

} // namespace

std::string labelled(const ChildSpec& spec, std::string_view line) {
  return ended_line(fmt::format("[{}] {}", spec.label, line));
}

std::string labelled_in_colour(const ChildSpec& spec, std::string_view line) {
  constexpr std::array colours = {36, 33, 32, 35, 34, 31};
  const int colour =
      colours[static_cast<std::size_t>(spec.colour) % colours.size()];
  return ended_line(
      fmt::format("\x1b[{}m[{}]\x1b[0m {}", colour, spec.label, line));
}

} // namespace cairn::launch
