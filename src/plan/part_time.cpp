#include "plan/part_time.h"

#include "plan/buckets.h"

#include <cairn/model/description.h>

#include <algorithm>

namespace cairn::plan {
namespace {

/// Messages of a block's forward pass between tensor and context ranks.
double block_messages(
    const PlannedRun& run,
    std::int64_t layer,
    const ComputeTime& forward) {
  const model::ModelDescription& d = run.training.model;
  const bool decodes = layer >= d.layers;
  const double stream = run.training.value_bytes *
      (decodes ? run.decoder_tokens : run.tokens) *
      static_cast<double>(d.hidden);
  const double branches = decodes ? 3 : 2; // each ends with a sum
  const Hiding tensor{
      run.constants.interference,
      run.training.program.overlaps_tensor};
  double time = tensor.added(
      branches * run.network.all_reduce(run.tensor_group(), stream),
      forward.products);
  if (run.layout.context > 1) {
    const double keys = run.training.value_bytes * run.tokens *
        static_cast<double>(2 * d.key_value_heads * d.head_size) /
        static_cast<double>(run.layout.tensor);
    const double ring = static_cast<double>(run.layout.context - 1) *
        run.network.send(
            run.layout.tensor * (run.layout.context > 2 ? 2 : 1),
            keys);
    time +=
        Hiding{run.constants.interference, true}.added(ring, forward.attention);
  }
  return time;
}

double expert_messages(const PlannedRun& run, std::int64_t layer) {
  const model::ModelDescription& d = run.training.model;
  if (run.layout.expert == 1 || model::experts_in_layer(d, layer) == 0) {
    return 0;
  }
  const double rows = run.tokens * static_cast<double>(d.experts->top_k) *
      std::max(1.0, d.experts->train_capacity_factor);
  return 4 *
      run.network.all_to_all(
          {run.layout.expert, run.layout.tensor},
          run.training.value_bytes * rows * static_cast<double>(d.hidden));
}

/// Stage 3 gathers parameters for each pass; from stage 2 on every micro
/// batch's gradients are reduced.
void add_parameter_traffic(
    const PlannedRun& run,
    const PartShare& share,
    double forward,
    double backward,
    PartTime& part) {
  double window = backward;
  if (run.layout.zero_stage >= 3) {
    const Hiding hiding{
        run.constants.interference,
        run.training.program.overlaps_gathers};
    const double amount =
        share.parameters * run.wire_bytes(run.layout.weight_bits);
    const double buckets = buckets_of(
        run.training,
        run.layout,
        share.parameters,
        share.specs.size());
    const auto gathered = [&](RankGroup group) {
      return buckets * run.network.all_gather(group, amount / buckets);
    };
    double first = gathered(run.shard_group());
    double second = run.layout.second_copy_ranks > 1
        ? gathered({run.layout.second_copy_ranks, run.layout.tensor})
        : first;
    if (run.layout.parameters != Place::device) {
      const double fetch = amount /
          static_cast<double>(shard_ranks(run.layout)) /
          run.tier_rate(run.layout.parameters, /*writes=*/false);
      first += fetch;
      second += fetch;
    }
    part.gathers =
        hiding.added(first, forward) + hiding.added(second, backward);
    window = std::max(0.0, window - second);
  }
  if (run.layout.zero_stage >= 2) {
    const Hiding hiding{
        run.constants.interference,
        run.training.program.overlaps_gradients};
    part.reductions = hiding.added_behind(
        reduction_seconds(run, share),
        window,
        buckets_of(
            run.training,
            run.layout,
            share.parameters,
            share.specs.size()));
  }
}

} // namespace

double message_seconds(const PlannedRun& run) {
  if (run.layout.pipeline == 1) {
    return 0;
  }
  const std::int64_t stride = run.layout.gpus / run.layout.pipeline;
  const double share = static_cast<double>(run.layout.tensor);
  // Tensor parallel ranks send a part each and gather it behind.
  // To T5's decoder go both streams.
  const double all = run.training.value_bytes *
      (run.tokens + run.decoder_tokens) *
      static_cast<double>(run.training.model.hidden);
  return run.network.send(stride, all / share) +
      run.network.all_gather(run.tensor_group(), all);
}

double reduction_seconds(const PlannedRun& run, const PartShare& share) {
  const double width = run.wire_bytes(run.layout.gradient_bits) *
      (run.layout.gradient_bits == 16 ? run.training.program.reduced_bytes / 2
                                      : 1);
  const double amount = share.parameters * width;
  const bool whole = run.layout.zero_stage == 0 ||
      (run.layout.zero_stage == 1 && run.training.program.reduces_whole);
  const double buckets = buckets_of(
      run.training,
      run.layout,
      share.parameters,
      share.specs.size());
  double time = buckets *
      (whole ? run.network.all_reduce(run.data_group(), amount / buckets)
             : run.network.reduce_scatter(run.shard_group(), amount / buckets));
  const std::int64_t copies =
      run.layout.data() * run.layout.context / shard_ranks(run.layout);
  if (run.layout.zero_stage > 0 && copies > 1) {
    time += run.network.all_reduce(
        {copies, run.layout.tensor * shard_ranks(run.layout)},
        amount / static_cast<double>(shard_ranks(run.layout)));
  }
  return time;
}

PartTime part_time(const PlannedRun& run, const PartShare& share) {
  PartTime part;
  std::int64_t place = share.blocks_before;
  for (const std::int64_t layer : share.blocks) {
    const PieceTime block = run.block_time.block(layer);
    part.compute.forward += block.forward;
    part.compute.backward += block.backward;
    const double messages = block_messages(run, layer, block.forward);
    part.tensor_forward += messages;
    part.tensor_backward += messages;
    part.experts += expert_messages(run, layer);
    if (is_recomputed(run.layout, place++)) {
      part.again += block.forward;
      part.tensor_backward += messages;
      continue;
    }
    part.again += run.block_time.parts_again(layer);
    if (run.layout.recompute == Recompute::scores &&
        !run.training.program.flash()) {
      part.again += {.attention = block.forward.attention};
    }
  }
  if (share.embedding) {
    const PieceTime piece = run.block_time.embedding();
    part.compute.forward += piece.forward;
    part.compute.backward += piece.backward;
  }
  if (share.head) {
    const PieceTime piece = run.block_time.head();
    part.compute.forward += piece.forward;
    part.compute.backward += piece.backward;
  }
  const double forward = part.compute.forward.total();
  const double backward = part.compute.backward.total() + part.again.total();
  add_parameter_traffic(run, share, forward, backward, part);
  const double weights = part.compute.backward.products / 2;
  part.cost = {
      .forward =
          forward + part.tensor_forward + part.experts / 2 + part.gathers / 2,
      .backward = backward + part.tensor_backward + part.experts / 2 +
          part.gathers / 2 + part.reductions - weights,
      .weights = weights};
  return part;
}

double slow_down(
    const PlannedRun& run,
    double factor,
    const std::vector<PartTime>& parts,
    std::vector<pipeline::PartCosts>& costs) {
  const auto computed = [&](std::size_t stage) {
    double sum = 0;
    for (std::size_t p = stage; p < parts.size(); p += run.stages()) {
      sum += parts[p].forward_compute() + parts[p].backward_compute();
    }
    return sum;
  };
  std::size_t busiest = 0;
  for (std::size_t stage = 1; stage < run.stages(); ++stage) {
    busiest = computed(stage) > computed(busiest) ? stage : busiest;
  }
  for (std::size_t p = busiest; p < parts.size(); p += run.stages()) {
    costs[p].forward += (factor - 1) * parts[p].forward_compute();
    costs[p].backward += (factor - 1) * parts[p].backward_compute();
  }
  return (factor - 1) * computed(busiest);
}

} // namespace cairn::plan
