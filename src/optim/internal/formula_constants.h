#pragma once

#include "kernels/internal/cuda/update_many.h"

#include <cairn/optim/rule.h>

#include <array>
#include <cstddef>

namespace cairn::optim {

/// The formula of an elementwise rule, with the constants of one update of one
/// parameter group, for a kernel that reads them from the GPU's memory.
struct FormulaConstants {
  std::array<float, 8> numbers{};
  std::size_t count = 0; ///< of the numbers
  /// Updates many stretches by formulas of this type.
  const char* (*update_many)(const kernels::cuda::ManyStretches&, void*) =
      nullptr;
};

} // namespace cairn::optim
