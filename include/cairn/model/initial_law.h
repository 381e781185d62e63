#pragma once

#include <cstdint>

namespace cairn::model {

/// Initial values of a parameter, before any training.
enum class InitialLaw {
  zero,
  one,
  normal,
  output_normal ///< for a layer that adds to the residual stream
};

/// Deviation of `output_normal`, Megatron's: by the depth of the stack, so that
/// the residual stream does not grow with it.
double output_deviation(double deviation, std::int64_t layers);

} // namespace cairn::model
