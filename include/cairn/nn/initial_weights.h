#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/nn/sliced_shape.h>

#include <cstdint>
#include <string>

namespace cairn::nn {

/// What a parameter starts from.
enum class StartValue {
  zero,
  one,
  normal,
  output_normal ///< of a layer whose output is added to the residual stream
};

/// Random numbers keyed by (seed, the parameter's name, the element's place in
/// the whole parameter): every layout of ranks starts from the same bits.
struct InitialWeights {
  std::uint64_t seed = 1234;
  double std = 0.02;
  double output_std = 0.02; ///< Megatron: std / sqrt(2 layers)

  /// Fills the local part of the parameter called `name` in the whole model.
  void fill(
      at::Tensor& local,
      const std::string& name,
      const SlicedShape& shape,
      StartValue start) const;
};

} // namespace cairn::nn
