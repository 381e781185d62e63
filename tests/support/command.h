#pragma once

#include <cairn/base/file.h>

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::testing {

using Words = std::vector<std::string>;

struct Result {
  int code = -1; ///< as a shell has it: 128 plus the signal
  std::string out;
  std::string err;
  std::chrono::milliseconds took{};
};

/// A running program, with its output so far. Its environment has a mark by
/// which it and all its descendants are found.
class Command {
 public:
  enum class Streams {
    pipes,
    terminal ///< of its own: all that is shown there counts as stdout
  };
  /// `environment` is set on top of our own.
  explicit Command(
      const Words& words,
      const std::vector<std::pair<std::string, std::string>>& environment = {},
      Streams streams = Streams::pipes);
  ~Command(); ///< kills its processes that are left

  pid_t pid() const { return pid_; }
  const std::string& mark() const { return mark_; }

  const std::string& out() const { return result_.out; } ///< so far
  /// Reads on until stdout holds `text`; fails the test after 20 s.
  void wait_for(std::string_view text);
  void wait_for_error(std::string_view text); ///< wait_for() on stderr
  /// Reads on until both its streams have ended.
  Result finish();
  void send(int signal);
  void type(std::string_view keys); ///< on its terminal

  /// The processes that carry the mark, zombies not counted.
  std::vector<pid_t> living() const;
  /// Waits until there are none; fails the test after 10 s.
  void expect_nothing_left() const;

 private:
  void start_on_terminal(
      const std::vector<char*>& arguments,
      const std::vector<char*>& environment);
  bool read_some();
  void wait_until(const std::string& stream, std::string_view text);

  std::string mark_;
  pid_t pid_ = -1;
  UniqueFd out_;
  UniqueFd err_;
  Result result_;
  std::chrono::steady_clock::time_point started_;
};

/// The variable that holds the mark.
inline constexpr const char* mark_variable = "CAIRN_TEST_MARK";

/// Runs a program to its end.
Result run(const Words& words);

/// The content of the file; empty when it cannot be read.
std::string read_text(const std::filesystem::path& file);

} // namespace cairn::testing
