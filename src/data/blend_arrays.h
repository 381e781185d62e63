#pragma once

#include "data/index_description.h"

#include <cairn/data/blend_index.h>
#include <cairn/data/data_selection.h>
#include <cairn/data/index_array.h>
#include <cairn/data/index_cache.h>

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace cairn::data {

/// How several datasets are to be mixed.
struct BlendPlan {
  /// Normalized; or, when `size` is none, how many samples each dataset has.
  std::variant<std::vector<double>, std::vector<std::int64_t>> weights;
  SampleCount size{}; ///< none: every sample once
};

struct BlendArrays {
  IndexArray datasets; ///< int16
  IndexArray samples;  ///< int64
  bool kept = true;    ///< false where they were to be and could not be
};

/// From the files of `cache`, or built and kept there; `cache` may be null.
/// `datasets` are the descriptions of what is mixed.
BlendArrays open_blend_arrays(
    const BlendPlan& plan,
    Split split,
    BlendRounding rounding,
    std::span<const Description> datasets,
    IndexCache* cache);

} // namespace cairn::data
