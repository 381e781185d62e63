#include "base/internal/file_calls.h"
#include "base/internal/thread_pool.h"
#include "io/engine.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

namespace cairn::io::detail {
namespace {

// A thread has one request in flight, so there are as many threads as io_uring
// would have requests. More than this number would only take turns.
constexpr std::int64_t most_threads = 32;

std::int64_t call(const Request& request, bool direct) {
  const int fd = request.transfer->target().file->fd(direct);
  const auto offset = static_cast<off_t>(request.offset);
  const ssize_t moved = request.transfer->direction() == Direction::read
      ? ::pread(fd, request.data, request.size, offset)
      : file_calls().pwrite(fd, request.data, request.size, offset);
  return moved < 0 ? -errno : moved;
}

class ThreadEngine : public Engine {
 public:
  explicit ThreadEngine(std::size_t threads) : pool_(threads) {}

  void submit(std::vector<Request> requests) override {
    for (Request& request : requests) {
      // The transfer tells when the request is done, so the future is dropped.
      static_cast<void>(pool_.submit([request = std::move(request)]() mutable {
        bool direct = request.can_be_direct();
        while (request.needs_more(call(request, direct), direct)) {
          direct = request.can_be_direct();
        }
      }));
    }
  }

 private:
  ThreadPool pool_;
};

} // namespace

std::unique_ptr<Engine> make_thread_engine(const config::AioConfig& config) {
  const std::int64_t threads =
      std::min(config.queue_depth * config.intra_op_parallelism, most_threads);
  return std::make_unique<ThreadEngine>(static_cast<std::size_t>(threads));
}

} // namespace cairn::io::detail
