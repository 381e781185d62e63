#include "kernels/internal/cpu/narrow_tiles.h"

#include "kernels/narrow_states.h"

#include <array>
#include <bit>
#include <cstddef>

namespace cairn::kernels::cpu {
namespace {

constexpr std::int64_t tile = 1024; // three arrays of it stay in the cache
using Tile = std::array<float, tile>;

void widen_weights(const Stretch& part, float* to) {
  const auto* upper = static_cast<const std::uint16_t*>(part.copy);
  for (std::int64_t i = 0; i < part.count; ++i) {
    to[i] = std::bit_cast<float>(joined(upper[i], part.narrow.remainders[i]));
  }
}

void split_weights(const float* from, const Stretch& part) {
  auto* upper = static_cast<std::uint16_t*>(part.copy);
  for (std::int64_t i = 0; i < part.count; ++i) {
    const std::uint32_t bits = quiet(std::bit_cast<std::uint32_t>(from[i]));
    upper[i] = upper_half(bits);
    part.narrow.remainders[i] = remainder(bits);
  }
}

void widen_state(const std::uint16_t* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[i]) << 16U);
  }
}

void round_state(
    const float* from,
    std::int64_t count,
    std::uint32_t key,
    std::uint16_t* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = rounded_by_chance(std::bit_cast<std::uint32_t>(from[i]), key);
  }
}

} // namespace

void for_each_wide_tile(
    const Stretch& stretch,
    const std::function<void(const Stretch&)>& update) {
  alignas(64) Tile weights;
  alignas(64) std::array<Tile, 2> states;
  for (std::int64_t first = 0; first < stretch.count; first += tile) {
    const Stretch part = part_of(stretch, first, tile);
    Stretch wide = part;
    wide.narrow = {};
    if (part.narrow.remainders != nullptr) {
      widen_weights(part, weights.data());
      wide.weights = weights.data();
      wide.copy = nullptr;
    }
    for (std::size_t s = 0; s < states.size(); ++s) {
      if (part.narrow.states[s] != nullptr) {
        widen_state(part.narrow.states[s], part.count, states[s].data());
        wide.states[s] = states[s].data();
      }
    }
    update(wide);
    if (part.narrow.remainders != nullptr) {
      split_weights(weights.data(), part);
    }
    for (std::size_t s = 0; s < states.size(); ++s) {
      if (part.narrow.states[s] != nullptr) {
        round_state(
            states[s].data(),
            part.count,
            key_of_state(part.narrow.key, static_cast<int>(s)),
            part.narrow.states[s]);
      }
    }
  }
}

} // namespace cairn::kernels::cpu
