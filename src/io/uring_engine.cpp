#include "io/engine.h"
#include "io/uring.h"

#include <cstddef>
#include <system_error>
#include <utility>

namespace cairn::io::detail {
namespace {

class UringEngine : public Engine {
 public:
  explicit UringEngine(std::vector<std::unique_ptr<Uring>> rings)
      : rings_(std::move(rings)) {}

  void submit(std::vector<Request> requests) override {
    if (rings_.size() == 1) {
      rings_.front()->submit(std::move(requests));
      return;
    }
    std::vector<std::vector<Request>> shares(rings_.size());
    for (Request& request : requests) {
      shares[next_].push_back(std::move(request));
      next_ = (next_ + 1) % rings_.size();
    }
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      if (!shares[i].empty()) {
        rings_[i]->submit(std::move(shares[i]));
      }
    }
  }

 private:
  std::vector<std::unique_ptr<Uring>> rings_;
  std::size_t next_ = 0;
};

} // namespace

UringOrReason make_uring_engine(const config::AioConfig& config) {
  try {
    std::vector<std::unique_ptr<Uring>> rings;
    for (std::int64_t i = 0; i < config.intra_op_parallelism; ++i) {
      rings.push_back(std::make_unique<Uring>(Uring::Options{
          .depth = static_cast<unsigned>(config.queue_depth),
          .submit_one_by_one = config.single_submit,
          .overlap = config.overlap_events}));
    }
    return {std::make_unique<UringEngine>(std::move(rings)), {}};
  } catch (const std::system_error& refused) {
    return {nullptr, refused.code().message()};
  }
}

} // namespace cairn::io::detail
