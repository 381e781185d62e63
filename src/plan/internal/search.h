#pragma once

#include <cairn/plan/estimate.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cairn::plan {

/// The ranks and the batch that a search has to place, and the degrees and the
/// schedule that it must not change.
struct SearchOptions {
  std::int64_t gpus = 1;
  std::int64_t global_batch = 1;
  std::optional<std::int64_t> tensor;
  std::optional<std::int64_t> pipeline;
  std::optional<std::int64_t> context;
  std::optional<std::int64_t> expert;
  std::optional<std::string> schedule;    ///< "gpipe", "1f1b", "zb-h1"…
  std::optional<std::int64_t> chunks;     ///< of "interleaved", on a stage
  std::optional<std::int64_t> chunk_size; ///< the same, by layers of one
  std::optional<int> zero_stage;
  std::optional<std::int64_t> micro_batch;
  std::size_t best = 10;   ///< so many layouts at most
  std::size_t nearest = 3; ///< so many that do not fit
};

struct SearchResult {
  std::vector<Estimate> layouts; ///< that fit, the fastest first
  /// Some that do not fit, each on other degrees, the nearest to it first.
  std::vector<Estimate> nearest;
  std::int64_t tried = 0;
  std::int64_t too_large = 0; ///< of them did not fit
};

/// Tries every layout of the ranks that the model allows: tensor, pipeline and
/// its schedule, data, context and expert parallelism, ZeRO stage, micro batch,
/// what is computed again, and offloading where nothing else fits.
SearchResult search(
    const Training& training,
    const Cluster& cluster,
    const SearchOptions& options);

/// The change of a layout, or of a search, that makes it fit at the least cost
/// in speed; none if no single change does.
struct Remedy {
  std::string change; ///< "--zero-stage 1"
  Estimate estimate;
};
std::optional<Remedy> cheapest_remedy(
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster);

/// The same for a search that finds nothing: a choice that it must not change
/// is left to it, or else it gets more GPUs.
std::optional<Remedy> cheapest_remedy(
    const Training& training,
    const Cluster& cluster,
    const SearchOptions& options);

/// The smallest part of the optimizer's states, in steps of 5%, without which
/// the rest fits on the GPU, while their update stays there; unset if it does
/// not even fit without all of them.
std::optional<double> least_offloaded(
    RunLayout layout,
    const std::function<Estimate(const RunLayout&)>& estimate);

} // namespace cairn::plan
