#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cairn::nn {

/// Makes a GPU's default generator draw other numbers for other heads, within
/// the scope: fused attention drops weights by it. Afterwards all ranks
/// continue with the same numbers. The numbers depend only on the first head
/// and the generator's state before the scope, so activations that are computed
/// again come out the same.
class [[nodiscard]] HeadRandom {
 public:
  HeadRandom(at::Device device, std::int64_t first_head);
  ~HeadRandom();
  HeadRandom(const HeadRandom&) = delete;
  HeadRandom& operator=(const HeadRandom&) = delete;

 private:
  at::Generator generator_;
  at::Tensor after_; ///< state to continue from
};

} // namespace cairn::nn
