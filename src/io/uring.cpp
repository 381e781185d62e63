#include "io/uring.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>
#include <utility>

namespace cairn::io::detail {
namespace {

// Marks the completion that means "there are new requests"; all other
// completions carry the number of their slot.
constexpr std::uint64_t wake_mark = ~std::uint64_t{0};

// Limit of a request: counts have 32 bits. A short transfer is continued
// anyway.
constexpr std::size_t most_bytes = 1 << 30;

[[noreturn]] void refuse(int error_number, const char* what) {
  throw std::system_error(error_number, std::generic_category(), what);
}

} // namespace

void Uring::Close::operator()(io_uring* ring) const noexcept {
  io_uring_queue_exit(ring);
}

Uring::Uring(Options options) : options_(options) {
  // The queue has an entry more than requests, for the wake-up.
  const int error = io_uring_queue_init(options_.depth + 1, &ring_storage_, 0);
  if (error < 0) {
    refuse(-error, "io_uring_setup");
  }
  ring_.reset(&ring_storage_);
  require_operations();
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) {
    refuse(errno, "eventfd");
  }
  slots_.resize(options_.depth);
  for (std::size_t slot = options_.depth; slot-- > 0;) {
    free_slots_.push_back(slot);
  }
  thread_ = std::thread([this] { run(); });
}

Uring::~Uring() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
}

void Uring::require_operations() {
  // Kernels before 5.6 have rings, but not these operations.
  const std::unique_ptr<io_uring_probe, decltype(&io_uring_free_probe)> probe(
      io_uring_get_probe_ring(ring_.get()),
      io_uring_free_probe);
  for (const int operation :
       {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_POLL_ADD}) {
    if (!probe || !io_uring_opcode_supported(probe.get(), operation)) {
      refuse(EOPNOTSUPP, "io_uring");
    }
  }
}

void Uring::submit(std::vector<Request> requests) {
  {
    const std::lock_guard lock(mutex_);
    std::move(requests.begin(), requests.end(), std::back_inserter(new_));
  }
  wake();
}

void Uring::wake() {
  const std::uint64_t one = 1;
  // This fails only when the counter is full, and then the thread is awake
  // anyway.
  static_cast<void>(::write(wake_.get(), &one, sizeof one) == sizeof one);
}

void Uring::run() {
  watch_for_wake();
  while (take_new()) {
    fill();
    enter_kernel(1);
    reap();
  }
}

bool Uring::take_new() {
  const std::lock_guard lock(mutex_);
  std::move(new_.begin(), new_.end(), std::back_inserter(waiting_));
  new_.clear();
  return !stop_ || !waiting_.empty() || free_slots_.size() < slots_.size();
}

void Uring::fill() {
  if (!options_.overlap && free_slots_.size() < slots_.size()) {
    return;
  }
  while (!waiting_.empty() && !free_slots_.empty()) {
    const std::size_t slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[slot].request = std::move(waiting_.front());
    waiting_.pop_front();
    start(slot);
  }
}

void Uring::start(std::size_t index) {
  // There is always a free entry: at most one per slot and one for the wake-up
  // are filled in before the kernel takes them.
  io_uring_sqe* entry = io_uring_get_sqe(ring_.get());
  Slot& slot = slots_[index];
  const Request& request = slot.request;
  slot.direct = request.can_be_direct();
  const int fd = request.transfer->target().file->fd(slot.direct);
  const auto size = static_cast<unsigned>(std::min(request.size, most_bytes));
  if (request.transfer->direction() == Direction::read) {
    io_uring_prep_read(entry, fd, request.data, size, request.offset);
  } else {
    io_uring_prep_write(entry, fd, request.data, size, request.offset);
  }
  io_uring_sqe_set_data64(entry, index);
  if (options_.submit_one_by_one) {
    enter_kernel(0);
  }
}

void Uring::enter_kernel(unsigned wait_for) {
  const int error = io_uring_submit_and_wait(ring_.get(), wait_for);
  // EINTR is a signal; the others ask us to take completions first.
  if (error < 0 && error != -EINTR && error != -EAGAIN && error != -EBUSY) {
    // We cannot know what the kernel still does with the callers' memory, so
    // this ends the process, with the reason.
    throw InternalError(
        {.what = fmt::format(
             "io_uring failed: {}",
             std::generic_category().message(-error))});
  }
}

void Uring::reap() {
  io_uring_cqe* completion = nullptr;
  while (io_uring_peek_cqe(ring_.get(), &completion) == 0) {
    const std::uint64_t data = io_uring_cqe_get_data64(completion);
    const std::int32_t result = completion->res;
    io_uring_cqe_seen(ring_.get(), completion);
    if (data == wake_mark) {
      std::uint64_t count = 0;
      static_cast<void>(::read(wake_.get(), &count, sizeof count) > 0);
      watch_for_wake();
      continue;
    }
    Slot& slot = slots_[data];
    if (slot.request.needs_more(result, slot.direct)) {
      start(data);
    } else {
      slot.request = {};
      free_slots_.push_back(data);
    }
  }
}

void Uring::watch_for_wake() {
  io_uring_sqe* entry = io_uring_get_sqe(ring_.get());
  io_uring_prep_poll_add(entry, wake_.get(), POLLIN);
  io_uring_sqe_set_data64(entry, wake_mark);
}

} // namespace cairn::io::detail
