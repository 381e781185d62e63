#include "plan/internal/what_if.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace cairn::plan {

Cluster with_links(Cluster cluster, const std::string& level, double factor) {
  bool found = false;
  std::vector<std::string> names;
  for (Level& each : cluster.levels) {
    names.push_back(each.name);
    if (level == "all" || level == each.name) {
      each.bandwidth *= factor;
      found = true;
    }
  }
  if (!found) {
    throw ConfigError(
        {.what = fmt::format("{} has no such links", cluster.name),
         .where = "--link-speed",
         .values = level,
         .remedy = fmt::format("name all, or {}", fmt::join(names, ", "))});
  }
  return cluster;
}

std::vector<ScalingPoint> scaling(
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster,
    std::int64_t most,
    const EstimateOptions& options) {
  std::vector<ScalingPoint> points;
  const auto at = [&](const RunLayout& run) -> std::optional<Estimate> {
    try {
      Estimate each = estimate(training, run, cluster, options);
      return each.fits ? std::optional(std::move(each)) : std::nullopt;
    } catch (const ConfigError&) {
      return std::nullopt; // the batch does not divide
    }
  };
  const std::int64_t last = most / layout.gpus;
  std::int64_t factor = 1;
  while (factor <= last) {
    RunLayout run = layout;
    run.gpus = layout.gpus * factor;
    ScalingPoint point{.gpus = run.gpus, .strong = at(run)};
    run.global_batch = layout.global_batch * factor;
    point.weak = at(run);
    points.push_back(std::move(point));
    // The last step goes as far as there are GPUs.
    factor = factor < last ? std::min(2 * factor, last) : last + 1;
  }
  return points;
}

} // namespace cairn::plan
