#include "nn/parallel/arriving_shares.h"

#include <ATen/ops/cat.h>

#include <utility>

namespace cairn::nn {

ArrivingShares::ArrivingShares(
    at::Tensor own,
    const distributed::ProcessGroup& group)
    : own_(std::move(own)), rank_(group.rank()) {
  const int ranks = group.size();
  const std::int64_t tokens = own_.size(0);
  // In step i every rank sends to one rank and receives from one.
  for (int step = 1; step < ranks; ++step) {
    const int to = (rank_ + ranks - step) % ranks;
    const int from = (rank_ + step) % ranks;
    distributed::ProcessGroup::Counts sent(static_cast<std::size_t>(ranks), 0);
    distributed::ProcessGroup::Counts received = sent;
    sent[static_cast<std::size_t>(to)] = tokens;
    received[static_cast<std::size_t>(from)] = tokens;
    arrivals_.push_back({from, group.all_to_all(own_, sent, received)});
  }
}

void ArrivingShares::for_each(
    const std::function<void(int rank, const at::Tensor& share)>& use) {
  use(rank_, own_);
  for (Arrival& each : arrivals_) {
    use(each.rank, each.share.wait());
  }
}

at::Tensor ArrivingShares::joined() {
  std::vector<at::Tensor> shares(arrivals_.size() + 1);
  for_each([&](int rank, const at::Tensor& share) {
    shares[static_cast<std::size_t>(rank)] = share;
  });
  return at::cat(shares);
}

} // namespace cairn::nn
