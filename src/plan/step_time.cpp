#include "plan/step_time.h"

#include "plan/buckets.h"

#include <cairn/base/error.h>

#include <algorithm>

namespace cairn::plan {
namespace {

/// Seconds to update so many elements whose states are in that place, not on
/// the GPU.
double offload_seconds(const PlannedRun& run, Place place, double elements) {
  const StateBytes& each = run.training.states;
  const double states = each.master + each.moments;
  const double copies = run.cluster.host.copy_bandwidth;
  const double gpus = run.gpus_of_a_node();
  double time = 0;
  if (run.layout.update_on_gpu) {
    time = elements * states / run.tier_rate(place, false);
  } else {
    if (run.cluster.host.adam_elements <= 0 || copies <= 0) {
      throw ConfigError(
          {.what =
               "the cluster's description does not say how fast its hosts are",
           .where = run.cluster.name});
    }
    // Gradients go to the host and new parameters come back.
    time = elements *
        (gpus / run.cluster.host.adam_elements +
         (run.training.value_bytes + each.parameter) / copies);
  }
  if (place == Place::nvme) {
    // States are read ahead and written behind: both ways run at once.
    const double both = run.cluster.host.nvme_both / gpus;
    time = std::max(
        {time,
         elements * states / run.tier_rate(Place::nvme, false),
         elements * states / run.tier_rate(Place::nvme, true),
         both > 0 ? 2 * elements * states / both : 0});
  }
  return time;
}

} // namespace

StepTime step_time(
    const PlannedRun& run,
    const std::vector<PartShare>& shares,
    const std::vector<PartTime>& parts,
    std::size_t stage) {
  StepTime step;
  double held = 0;
  double tensors = 0;
  double forward = 0;
  for (std::size_t p = stage; p < parts.size(); p += run.stages()) {
    forward += parts[p].cost.forward;
    held += shares[p].parameters;
    tensors += static_cast<double>(shares[p].specs.size());
    if (run.layout.zero_stage < 2) {
      const Hiding hiding{
          run.constants.interference,
          run.training.program.overlaps_gradients};
      step.gradients += hiding.added_behind(
          reduction_seconds(run, shares[p]),
          parts[p].backward(),
          buckets_of(
              run.training,
              run.layout,
              shares[p].parameters,
              shares[p].specs.size()));
    }
  }
  const double owned = run.layout.zero_stage >= 1
      ? held / static_cast<double>(shard_ranks(run.layout))
      : held;
  if (run.layout.zero_stage == 1 || run.layout.zero_stage == 2) {
    const Hiding hiding{
        run.constants.interference,
        run.training.program.gathers_ahead};
    const double buckets = buckets_of(
        run.training,
        run.layout,
        held,
        static_cast<std::size_t>(tensors));
    step.gathers = hiding.added(
        buckets *
            run.network.all_gather(
                run.shard_group(),
                held * run.training.states.parameter / buckets),
        forward);
  }
  const double away =
      run.layout.optimizer == Place::device ? 0 : run.layout.offloaded;
  const StateBytes& each = run.training.states;
  // States are read and written, the gradient is read twice: for its norm
  // and for the update.
  const double moved =
      2 * (each.master + each.moments) + 2 * each.gradient + each.parameter;
  const Program& program = run.training.program;
  const double gradients = run.layout.zero_stage >= 2 ? owned : held;
  step.optimizer =
      run.block_time.traffic(
          (1 - away) * owned * moved + gradients * program.step_bytes) +
      tensors * program.step_reads * run.constants.read_seconds;
  if (away > 0) {
    const double on_host = run.layout.offloaded_to_host;
    const double copies =
        offload_seconds(run, run.layout.optimizer, (away - on_host) * owned) +
        (on_host > 0 ? offload_seconds(run, Place::cpu, on_host * owned) : 0);
    // Every layer waits for its own weights alone, if they arrive beside the
    // next forward pass. The last layers' states are those that visit, so all
    // of that pass hides them. Copies over PCIe take nothing from the products.
    step.offload = run.layout.update_on_gpu && program.gathers_ahead
        ? std::max(0.0, copies - forward)
        : copies;
  }
  return step;
}

} // namespace cairn::plan
