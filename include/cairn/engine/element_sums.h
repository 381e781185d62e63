#pragma once

#include <cmath>

namespace cairn::inline engine {

/// Sums over all elements of tensors that are spread over ranks; an element
/// that several ranks hold counts once, padding does not.
struct ElementSums {
  double squares = 0;
  double absolutes = 0; ///< of absolute values
  double roots = 0;     ///< of their square roots
  double largest = 0;   ///< of the absolute values

  double norm() const { return std::sqrt(squares); }
};

} // namespace cairn::engine
