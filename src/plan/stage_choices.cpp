#include "plan/internal/stage_choices.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace cairn::plan {
namespace {

std::optional<Estimate> estimate_if_possible(
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster) {
  try {
    return estimate(training, layout, cluster);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

double largest_that_fits(
    Training training,
    const RunLayout& layout,
    const Cluster& cluster) {
  const auto fitting = [&](std::int64_t layers) {
    training.model.layers = layers;
    if (training.decoder_sequence > 0) {
      training.model.decoder_layers = layers;
    }
    const auto each = estimate_if_possible(training, layout, cluster);
    return each && each->fits ? each->parameters : 0.0;
  };
  // Fewer layers than parts of the pipeline make no model.
  const std::int64_t least = layout.pipeline * layout.chunks;
  double largest = fitting(least);
  if (largest == 0) {
    return 0;
  }
  constexpr std::int64_t most = 4096; // deeper than any model is
  std::int64_t fits = least;
  std::int64_t fails = most + 1;
  while (fails - fits > 1) {
    const std::int64_t middle =
        fails > most ? std::min(2 * fits, most) : (fits + fails) / 2;
    if (const double parameters = fitting(middle); parameters > 0) {
      largest = parameters;
      fits = middle;
      if (fits == most) {
        break;
      }
    } else {
      fails = middle;
    }
  }
  return largest;
}

} // namespace

std::vector<StageChoice> stage_choices(
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster) {
  std::vector<StageChoice> choices;
  const auto add = [&](std::string name, const RunLayout& run) {
    choices.push_back(
        {.name = std::move(name),
         .estimate = estimate_if_possible(training, run, cluster),
         .largest = largest_that_fits(training, run, cluster)});
  };
  RunLayout run = layout;
  run.optimizer = Place::device;
  run.parameters = Place::device;
  for (run.zero_stage = 0; run.zero_stage <= 3; ++run.zero_stage) {
    add("ZeRO " + std::to_string(run.zero_stage), run);
  }
  run.optimizer = Place::cpu;
  for (run.zero_stage = 2; run.zero_stage <= 3; ++run.zero_stage) {
    add("ZeRO " + std::to_string(run.zero_stage) + ", optimizer on the CPU",
        run);
  }
  run.zero_stage = 3;
  run.parameters = Place::cpu;
  add("ZeRO 3, optimizer and parameters on the CPU", run);
  if (cluster.host.nvme_bytes > 0) {
    run.optimizer = Place::nvme;
    run.parameters = Place::nvme;
    add("ZeRO 3, both on NVMe", run);
  }
  return choices;
}

} // namespace cairn::plan
