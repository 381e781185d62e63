#pragma once

#include <cairn/base/log.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::launch {

/// A descriptor to which lines of ranks go, each in one piece.
class OutputStream {
 public:
  /// `name` is what a warning calls it.
  OutputStream(int fd, std::string name, Logger logger)
      : fd_(fd), name_(std::move(name)), logger_(logger) {}

  /// `wait` returns when the descriptor can be written to; false when the line
  /// is to be given up.
  OutputStream(
      int fd,
      std::string name,
      Logger logger,
      std::function<bool(int fd)> wait)
      : fd_(fd),
        name_(std::move(name)),
        logger_(logger),
        wait_(std::move(wait)) {}

  /// Writes `line`, waiting where the reader is slow.
  void write(std::string_view line);

  /// Nobody reads any more (the reader of a pipe has gone).
  bool closed() const { return closed_; }

 private:
  int fd_;
  std::string name_;
  Logger logger_;
  std::function<bool(int fd)> wait_; // none: writing itself waits
  bool closed_ = false;
  bool complained_ = false;
};

} // namespace cairn::launch
