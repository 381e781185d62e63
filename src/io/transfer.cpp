#include "io/transfer.h"

#include "base/internal/file_error.h"

#include <cairn/io/aligned_buffer.h>

#include <fmt/format.h>

#include <cerrno>
#include <utility>

namespace cairn::io::detail {

void LostError::keep(Problem problem) {
  const std::lock_guard lock(mutex_);
  if (!problem_) {
    problem_ = std::move(problem);
  }
}

void LostError::throw_if_any() {
  const std::lock_guard lock(mutex_);
  if (problem_) {
    Problem problem = std::move(*problem_);
    problem_.reset();
    throw DataError(std::move(problem));
  }
}

Transfer::Transfer(
    Direction direction,
    Target target,
    std::size_t requests,
    std::shared_ptr<LostError> lost)
    : direction_(direction),
      target_(std::move(target)),
      lost_(std::move(lost)),
      requests_left_(requests) {}

void Transfer::request_done() {
  const std::lock_guard lock(mutex_);
  if (--requests_left_ == 0) {
    ended_.notify_all();
  }
}

void Transfer::request_failed(Problem problem) {
  {
    const std::lock_guard lock(mutex_);
    if (!problem_) {
      problem_ = std::move(problem);
    }
  }
  request_done();
}

void Transfer::wait_for_end(std::unique_lock<std::mutex>& lock) {
  ended_.wait(lock, [this] { return requests_left_ == 0; });
}

void Transfer::wait() {
  std::unique_lock lock(mutex_);
  wait_for_end(lock);
  if (problem_) {
    problem_thrown_ = true;
    throw DataError(*problem_);
  }
}

void Transfer::abandon() noexcept {
  std::unique_lock lock(mutex_);
  wait_for_end(lock);
  if (problem_ && !problem_thrown_) {
    lost_->keep(*problem_);
  }
}

bool Transfer::done() const {
  const std::lock_guard lock(mutex_);
  return requests_left_ == 0;
}

bool Request::can_be_direct() const {
  constexpr std::size_t unit = direct_alignment;
  return transfer->target().file->direct_works && size % unit == 0 &&
      offset % unit == 0 && reinterpret_cast<std::uintptr_t>(data) % unit == 0;
}

bool Request::needs_more(std::int64_t result, bool was_direct) {
  if (result == -EINTR || result == -EAGAIN) {
    return true;
  }
  if (result == -EINVAL && was_direct) {
    transfer->target().file->direct_works = false;
    return true;
  }
  if (result < 0) {
    fail(static_cast<int>(-result));
    return false;
  }
  if (result == 0) {
    if (transfer->direction() == Direction::write) {
      fail(EIO); // no kernel does this; do not try for ever
    } else {
      transfer->request_failed(
          {.what = "the file ends too early",
           .where = transfer->target().path->string(),
           .values = place()});
    }
    return false;
  }
  const auto moved = static_cast<std::size_t>(result);
  data += moved;
  size -= moved;
  offset += moved;
  if (size > 0) {
    return true;
  }
  transfer->request_done();
  return false;
}

void Request::fail(int error_number) const {
  const bool reads = transfer->direction() == Direction::read;
  const DataError error = file_error(
      reads ? "read" : "write",
      *transfer->target().path,
      error_number,
      place());
  transfer->request_failed(error.problem());
}

std::string Request::place() const {
  return fmt::format(
      "{} bytes at offset {}",
      size,
      offset - transfer->target().offset);
}

} // namespace cairn::io::detail
