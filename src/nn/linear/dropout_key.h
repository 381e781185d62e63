#pragma once

#include "base/internal/philox.h"
#include "base/internal/stable_hash.h"

#include <cairn/nn/layer.h>

#include <cstdint>
#include <string_view>

namespace cairn::nn {

/// The key of the random numbers of one dropout: of the run's seed and its
/// place in the whole model.
inline std::uint64_t dropout_key(
    const LayerContext& context,
    std::string_view name) {
  return Philox4x32::at(
             stable_hash(context.in(name).path),
             0,
             context.dropout_seed)
      .pair(0);
}

} // namespace cairn::nn
