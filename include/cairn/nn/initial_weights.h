#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/model/initial_law.h>
#include <cairn/nn/sliced_shape.h>

#include <cstdint>
#include <string>

namespace cairn::nn {

/// Random initial weights, keyed by (seed, the parameter's name, the element's
/// place in the whole parameter): every layout of ranks starts from the same
/// bits.
struct InitialWeights {
  std::uint64_t seed = 1234;
  double std = 0.02;
  double output_std = 0.02; ///< see model::output_deviation()

  /// Fills the local part of the parameter called `name` in the whole model.
  void fill(
      at::Tensor& local,
      const std::string& name,
      const SlicedShape& shape,
      model::InitialLaw law) const;
};

} // namespace cairn::nn
