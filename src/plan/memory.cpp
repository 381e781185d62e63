#include "plan/memory.h"

#include "model/internal/activations.h"

#include <algorithm>

namespace cairn::plan {
namespace {

double& tier_of(StageMemory& memory, Place place, double& device) {
  return place == Place::cpu ? memory.host
      : place == Place::nvme ? memory.nvme
                             : device;
}

class StageCounter {
 public:
  StageCounter(
      const Training& training,
      const RunLayout& run,
      const std::vector<const PartShare*>& parts)
      : training_(training), run_(run), parts_(parts) {
    for (const PartShare* part : parts) {
      held_ += part->parameters;
      experts_ += part->experts;
      for (const zero::ParameterSpec& each : part->specs) {
        largest_parameter_ =
            std::max(largest_parameter_, static_cast<double>(each.elements()));
      }
      for (const std::int64_t block : part->blocks) {
        const double inside = part->parameters /
            static_cast<double>(std::max<std::size_t>(1, part->blocks.size()));
        largest_ = std::max(largest_, inside);
        a_block_ = block;
        blocks_ = true;
      }
      largest_ =
          std::max(largest_, part->blocks.empty() ? part->parameters : 0);
    }
  }

  void add_states(StageMemory& to, bool exact) const {
    const StateBytes& each = training_.states;
    const double owned = exact ? owned_elements(parts_, run_) : about_owned();
    const auto cut = [&](bool is_cut) { return is_cut ? owned : held_; };
    const bool shards_parameters = run_.zero_stage >= 3;
    tier_of(to, run_.parameters, to.device.parameters) +=
        each.parameter * cut(shards_parameters);
    const double away = run_.optimizer == Place::device ? 0 : run_.offloaded;
    // From stage 2 on gradients go where they are needed, the host too.
    to.device.gradients += each.gradient * cut(run_.zero_stage >= 2) *
        (run_.zero_stage >= 2 && !run_.update_on_gpu ? 1 - away : 1);
    const double states = cut(run_.zero_stage >= 1);
    to.device.master_weights += (1 - away) * each.master * states;
    to.device.optimizer += (1 - away) * each.moments * states;
    if (away > 0) {
      tier_of(to, run_.optimizer, to.device.optimizer) +=
          away * (each.master + each.moments) * states;
      // Gradients on their way to the update.
      to.host += away * each.gradient * states;
    }
    if (run_.second_copy_ranks > 1) {
      to.device.gathered_parameters += held_ /
          static_cast<double>(run_.second_copy_ranks) *
          (training_.program.second_copy_bytes > 0
               ? training_.program.second_copy_bytes
               : run_.weight_bits / 8.0);
    }
    if (shards_parameters) {
      // The block that is computed and the one that is fetched ahead.
      to.device.gathered_parameters += each.parameter *
          std::min(held_,
                   std::max(2 * largest_, training_.program.live_elements));
    }
    if (run_.zero_stage >= 1) {
      const double wanted = training_.program.bucket_elements > 0
          ? training_.program.bucket_elements
          : static_cast<double>(zero::bucket_capacity(
                static_cast<std::int64_t>(held_),
                static_cast<std::int64_t>(held_),
                static_cast<int>(shard_ranks(run_))));
      // A parameter that is larger has a bucket of its own.
      const double bucket =
          std::min(std::max(wanted, largest_parameter_), held_);
      // One fills while another one travels; alone, a rank only fills.
      const double copies = run_.zero_stage < 2 ? 1
          : shard_ranks(run_) == 1              ? 2
                                   : training_.program.bucket_copies;
      to.device.buckets += copies * training_.value_bytes * bucket;
    }
  }

  void add_activations(StageMemory& to, const std::vector<int>& live) const {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      double kept = 0;
      for (const std::int64_t block : parts_[i]->blocks) {
        kept += block_bytes(block, run_.recompute);
      }
      to.device.activations += kept * live[i];
    }
    const std::int64_t longest =
        std::max(training_.sequence, training_.decoder_sequence);
    const std::int64_t scored = training_.decoder_sequence > 0
        ? training_.decoder_sequence
        : training_.sequence;
    const double share = training_.program.scored_share;
    const double samples = static_cast<double>(run_.micro_batch) /
        static_cast<double>(run_.context);
    const double tokens = samples * static_cast<double>(longest);
    const auto ranks = static_cast<double>(run_.tensor);
    const model::ModelDescription& d = training_.model;
    if (blocks_) {
      // Gradients of the widest activation and of the residual stream.
      to.device.working += training_.value_bytes * tokens *
          (2 * static_cast<double>(d.hidden) +
           2 * static_cast<double>(d.ffn) / ranks);
      if (run_.recompute == Recompute::blocks) {
        to.device.working += block_bytes(a_block_, Recompute::scores);
      }
      if (run_.recompute != Recompute::nothing || flash()) {
        // Scores of the block that is computed, where they are written.
        to.device.working += flash()
            ? 0
            : block_bytes(a_block_, Recompute::nothing) -
                block_bytes(a_block_, Recompute::scores);
      }
    }
    // The head and a block are not computed at the same time.
    for (const PartShare* part : parts_) {
      if (part->head) {
        to.device.logits += training_.program.logit_bytes *
            training_.value_bytes / 2 * share * samples *
            static_cast<double>(scored) *
            static_cast<double>(d.padded_vocabulary) / ranks;
      }
    }
    to.device.working = std::max(0.0, to.device.working - to.device.logits);
  }

 private:
  bool flash() const { return training_.program.flash(); }

  double about_owned() const {
    const auto ranks = static_cast<double>(shard_ranks(run_));
    const double expert_ranks =
        std::max(1.0, ranks / static_cast<double>(run_.expert));
    return (held_ - experts_) / ranks + experts_ / expert_ranks;
  }

  double block_bytes(std::int64_t block, Recompute recompute) const {
    const model::Recompute how = recompute == Recompute::blocks
        ? model::Recompute::blocks
        : recompute == Recompute::scores || flash() ? model::Recompute::scores
                                                    : model::Recompute::nothing;
    const bool decodes = block >= training_.model.layers;
    const model::ActivationOptions options{
        .sequence = decodes ? training_.decoder_sequence : training_.sequence,
        .batch = run_.micro_batch,
        .element_bytes = training_.value_bytes,
        .tensor_ranks = run_.tensor,
        .sequence_parallel = run_.sequence_parallel,
        .recompute = how,
        .fused_gate = training_.program.fused_gate};
    double all = model::activation_bytes(training_.model, block, options);
    if (decodes) {
      all += model::cross_attention_bytes(
          training_.model,
          training_.sequence,
          options);
    }
    const double share =
        how == model::Recompute::blocks ? 1 : training_.program.kept_share;
    return all * share / static_cast<double>(run_.context);
  }

  const Training& training_;
  const RunLayout& run_;
  const std::vector<const PartShare*>& parts_;
  double held_ = 0;
  double experts_ = 0;
  double largest_ = 0; ///< parameters of a block
  double largest_parameter_ = 0;
  std::int64_t a_block_ = 0;
  bool blocks_ = false;
};

double context_bytes(const RunLayout& run, const Gpu& gpu) {
  const int groups = (run.data() > 1 ? 1 : 0) + (run.tensor > 1 ? 1 : 0) +
      (run.pipeline > 1 ? 1 : 0) + (run.context > 1 ? 1 : 0) +
      (run.expert > 1 ? 1 : 0);
  return gpu.context_bytes + gpu.group_bytes * groups;
}

} // namespace

StageMemory stage_memory(
    const Training& training,
    const RunLayout& layout,
    const Gpu& gpu,
    const std::vector<const PartShare*>& parts,
    const std::vector<int>& live,
    bool exact) {
  StageMemory memory;
  const StageCounter counter(training, layout, parts);
  counter.add_states(memory, exact);
  counter.add_activations(memory, live);
  memory.device.fragmentation =
      training.program.fragmentation * memory.device.total();
  memory.device.context = context_bytes(layout, gpu);
  return memory;
}

} // namespace cairn::plan
