#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

#include <functional>
#include <vector>

namespace cairn::nn {

/// The shares of tokens of all ranks, [tokens of a rank, columns] each, on
/// their way to all ranks. Every share travels by itself, straight from its
/// rank, so that work on one runs while the next travels.
class ArrivingShares {
 public:
  /// Sends this rank's share. It must not be changed before the shares of the
  /// others are here.
  ArrivingShares(at::Tensor own, const distributed::ProcessGroup& group);

  /// Calls `use` for the share of each rank: first for the own one, then for
  /// the others as they arrive.
  void for_each(
      const std::function<void(int rank, const at::Tensor& share)>& use);

  /// All shares in the order of ranks, as one matrix.
  at::Tensor joined();

 private:
  struct Arrival {
    int rank;
    distributed::Pending share;
  };

  at::Tensor own_;
  int rank_;
  std::vector<Arrival> arrivals_; ///< in the order in which they arrive
};

} // namespace cairn::nn
