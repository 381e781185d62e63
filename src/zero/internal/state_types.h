#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace cairn::zero {

/// The types in which an optimizer keeps its weights and states.
struct StateTypes {
  /// Keeps the halves of the weights that bf16 parameters drop, where the
  /// parameters are on the device of the update. Elsewhere weights are fp32.
  bool split_weights = false;
  std::array<at::ScalarType, 2> states{at::kFloat, at::kFloat};

  bool any_narrow() const {
    return split_weights || states[0] != at::kFloat || states[1] != at::kFloat;
  }
  /// Bytes of the first `count` states for each parameter.
  std::int64_t bytes_of_states(int count) const {
    std::int64_t bytes = 0;
    for (int i = 0; i < count; ++i) {
      const auto type =
          i < 2 ? states[static_cast<std::size_t>(i)] : at::kFloat;
      bytes += static_cast<std::int64_t>(c10::elementSize(type));
    }
    return bytes;
  }
  bool operator==(const StateTypes&) const = default;
};

} // namespace cairn::zero
