#include "plan/internal/stage_choices.h"

#include "plan/internal/search.h"
#include "plan/planned_run.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
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

/// The estimate with as little of the optimizer on the host as must be there,
/// and all of it where that does not suffice. The GPU updates it.
std::optional<Estimate> estimate_partly(
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster) {
  RunLayout run = layout;
  run.update_on_gpu = true;
  try {
    const auto part = least_offloaded(run, [&](const RunLayout& each) {
      return estimate(training, each, cluster);
    });
    run.offloaded = part.value_or(1);
    return estimate(training, run, cluster);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

/// The estimate with the optimizer on the host as far as there is room, and the
/// rest of it on the disk. The GPU updates it.
std::optional<Estimate> estimate_on_host_and_disk(
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster) {
  RunLayout run = layout;
  run.update_on_gpu = true;
  run.optimizer = Place::nvme;
  try {
    const Estimate on_disk = estimate(training, run, cluster);
    constexpr double steps = 100;
    const double part =
        (usable_bytes(cluster.host) - on_disk.host_bytes) / on_disk.nvme_bytes;
    run.offloaded_to_host =
        std::clamp(std::floor(part * steps) / steps, 0.0, 1.0);
    return estimate(training, run, cluster);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

using EstimateAs =
    std::optional<Estimate>(const Training&, const RunLayout&, const Cluster&);
using Estimating = std::function<std::optional<Estimate>(const Training&)>;

double largest_that_fits(
    Training training,
    const RunLayout& layout,
    const Estimating& estimate_of) {
  const auto fitting = [&](std::int64_t layers) {
    training.model.layers = layers;
    if (training.decoder_sequence > 0) {
      training.model.decoder_layers = layers;
    }
    const auto each = estimate_of(training);
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
  const auto add = [&](std::string name,
                       const RunLayout& run,
                       EstimateAs* estimate_as = estimate_if_possible) {
    const auto estimate_of = [&](const Training& each) {
      return estimate_as(each, run, cluster);
    };
    choices.push_back(
        {.name = std::move(name),
         .estimate = estimate_of(training),
         .largest = largest_that_fits(training, run, estimate_of)});
  };
  RunLayout run = layout;
  run.optimizer = Place::device;
  run.parameters = Place::device;
  // Each choice says itself how much of the optimizer is where.
  run.offloaded = 1;
  run.offloaded_to_host = 0;
  for (run.zero_stage = 0; run.zero_stage <= 3; ++run.zero_stage) {
    add("ZeRO " + std::to_string(run.zero_stage), run);
  }
  run.optimizer = Place::cpu;
  run.zero_stage = run.data() * run.context > 1 && run.pipeline == 1 ? 2 : 1;
  const std::string stage = "ZeRO " + std::to_string(run.zero_stage);
  add(stage + ", part of the optimizer on the CPU", run, estimate_partly);
  if (cluster.host.nvme_bytes > 0) {
    add(stage + ", optimizer on the CPU and NVMe",
        run,
        estimate_on_host_and_disk);
  }
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
