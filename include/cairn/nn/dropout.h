#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

namespace cairn::nn {

/// Within the scope the device's default generator draws other numbers on every
/// rank of the group; afterwards all ranks go on alike. What the ranks draw is
/// a function of where the generator stood, so that activations which are
/// computed again come out the same. A group of one is left alone.
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
  at::Tensor after_; ///< the state to go on from
};

/// What a rank has of a tensor: all, like the others, or a part of its own.
enum class Held { replicated, split };

/// Zeroes elements with that probability while training, the same ones on every
/// rank unless each holds a part of its own.
at::Tensor dropout(
    const at::Tensor& x,
    double probability,
    bool training,
    Held held,
    const distributed::ProcessGroup& group);

} // namespace cairn::nn
