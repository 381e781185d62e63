#pragma once

#include <cairn/base/log.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::launch {

/// A descriptor for the lines of ranks; each line is written in one piece.
class OutputStream {
 public:
  /// `name` is used in warnings.
  OutputStream(int fd, std::string name, Logger logger)
      : fd_(fd), name_(std::move(name)), logger_(logger) {}

  /// `wait` returns when the descriptor can be written to; false means that the
  /// line must be dropped.
  OutputStream(
      int fd,
      std::string name,
      Logger logger,
      std::function<bool(int fd)> wait)
      : fd_(fd),
        name_(std::move(name)),
        logger_(logger),
        wait_(std::move(wait)) {}

  /// Writes `line`; waits if the reader is slow.
  void write(std::string_view line);

  /// True when the reader of a pipe has gone.
  bool closed() const { return closed_; }

 private:
  int fd_;
  std::string name_;
  Logger logger_;
  std::function<bool(int fd)> wait_; // empty: write(2) blocks
  bool closed_ = false;
  bool complained_ = false;
};

} // namespace cairn::launch
