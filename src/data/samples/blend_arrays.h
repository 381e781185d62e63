#pragma once

#include "data/samples/blend_index.h"
#include "data/samples/index_cache.h"
#include "data/samples/index_description.h"

#include <cairn/data/data_selection.h>
#include <cairn/data/index_array.h>

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace cairn::data {

/// The mixture of several datasets.
struct BlendPlan {
  /// Normalized weights; or, when `size` is empty, the number of samples of
  /// each dataset.
  std::variant<std::vector<double>, std::vector<std::int64_t>> weights;
  SampleCount size{}; ///< empty: every sample once
};

struct BlendArrays {
  IndexArray datasets; ///< int16
  IndexArray samples;  ///< int64
  bool kept = true;    ///< false: could not be stored as asked
};

/// Opens the arrays from the files of `cache`, or builds and stores them;
/// `cache` may be null. `datasets` describes the datasets that are mixed.
BlendArrays open_blend_arrays(
    const BlendPlan& plan,
    Split split,
    BlendRounding rounding,
    std::span<const Description> datasets,
    IndexCache* cache);

} // namespace cairn::data
