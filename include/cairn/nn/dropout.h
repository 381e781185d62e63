#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

namespace cairn::nn {

/// Makes the device's default generator draw other numbers on every rank of the
/// group, within the scope. Afterwards all ranks continue with the same
/// numbers. The numbers of a rank depend only on the generator's state before
/// the scope, so activations that are computed again come out the same. A group
/// of one is left alone.
///
/// All ranks of a tensor parallel group start from the same seed.
class [[nodiscard]] RankRandom {
 public:
  RankRandom(const distributed::ProcessGroup& group, at::Device device);
  ~RankRandom();
  RankRandom(const RankRandom&) = delete;
  RankRandom& operator=(const RankRandom&) = delete;

 private:
  at::Generator generator_;
  at::Tensor after_; ///< state to continue from
};

/// The part of a tensor that a rank holds: all of it, like the other ranks, or
/// a part of its own.
enum class Held { replicated, split };

/// Zeroes elements with that probability while training. They are the same on
/// every rank unless each rank holds a part of its own.
at::Tensor dropout(
    const at::Tensor& x,
    double probability,
    bool training,
    Held held,
    const distributed::ProcessGroup& group);

} // namespace cairn::nn
