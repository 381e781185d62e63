#include "plan/memory.h"

#include "model/internal/activations.h"
#include "model/internal/head_chunk.h"
#include "plan/buckets.h"

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
        ++blocks_count_;
      }
      held_in_blocks_ += part->in_blocks;
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
    if (training_.eight_bit) {
      to.device.parameters +=
          training_.program.eight_bit_copies * held_in_blocks_;
    }
    const double away = run_.optimizer == Place::device ? 0 : run_.offloaded;
    // From stage 2 on gradients go where they are needed, the host too.
    to.device.gradients += each.gradient * cut(run_.zero_stage >= 2) *
        (run_.zero_stage >= 2 && !run_.update_on_gpu ? 1 - away : 1);
    const double states = cut(run_.zero_stage >= 1);
    to.device.master_weights += (1 - away) * each.master * states;
    to.device.optimizer += (1 - away) * each.moments * states;
    if (away > 0) {
      const double elsewhere = (each.master + each.moments) * states;
      tier_of(to, run_.optimizer, to.device.optimizer) +=
          (away - run_.offloaded_to_host) * elsewhere;
      to.host += run_.offloaded_to_host * elsewhere;
      if (run_.update_on_gpu) {
        // A buffer has a rank's share of a bucket.
        const double share = bucket() * states / held_;
        to.device.buckets += (each.master + each.moments) *
            std::min(static_cast<double>(run_.visit_buffers) * share,
                     away * states);
      } else {
        to.host += away * each.gradient * states; // on their way to the update
      }
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
    // A rank that is alone has nothing to send, if its gradients stay.
    const bool travels = shard_ranks(run_) > 1 ||
        training_.program.bucket_elements > 0 ||
        (away > 0 && !run_.update_on_gpu);
    if (run_.zero_stage >= 1 && travels) {
      // One fills while another one travels; alone, a rank only fills.
      const double copies = run_.zero_stage < 2 ? 1
          : shard_ranks(run_) == 1              ? 2
                                   : training_.program.bucket_copies;
      to.device.buckets += copies * training_.value_bytes * bucket();
    }
  }

  void add_activations(StageMemory& to, const std::vector<int>& live) const {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const BlocksBytes kept = kept_of(*parts_[i]);
      to.device.activations += kept.device * live[i];
      to.host += kept.host * live[i];
    }
    if (blocks_) {
      add_block(to.device);
    }
    // The head and a block are not computed at the same time.
    for (const PartShare* part : parts_) {
      if (part->head) {
        to.device.logits += head_bytes();
      }
    }
    to.device.working = std::max(0.0, to.device.working - to.device.logits);
  }

 private:
  struct BlocksBytes {
    double device = 0;
    double host = 0;
  };

  /// What a part's blocks keep of a micro batch.
  BlocksBytes kept_of(const PartShare& part) const {
    BlocksBytes kept;
    std::int64_t place = part.blocks_before;
    std::int64_t together = 0; // recomputed blocks so far
    for (const std::int64_t block : part.blocks) {
      const bool again = is_recomputed(run_, place++);
      if (!again) {
        kept.device += block_bytes(block, own_recompute());
      } else if (together++ % run_.recomputed_together == 0) {
        const double input = block_bytes(block, Recompute::blocks) /
            (run_.inputs_cut ? static_cast<double>(run_.tensor) : 1);
        (run_.inputs_on_host ? kept.host : kept.device) += input;
      }
    }
    return kept;
  }

  /// What a block needs while it is computed.
  void add_block(MemoryParts& to) const {
    const model::ModelDescription& d = training_.model;
    const double tokens =
        samples() *
        static_cast<double>(
            std::max(training_.sequence, training_.decoder_sequence));
    // Gradients of the widest activation and of the residual stream.
    to.working += training_.value_bytes * tokens *
        (2 * static_cast<double>(d.hidden) +
         2 * static_cast<double>(d.ffn) / static_cast<double>(run_.tensor));
    const bool all_again =
        run_.recompute == Recompute::blocks && run_.recomputed_blocks == 0;
    if (all_again) {
      to.working +=
          static_cast<double>(
              std::min<std::int64_t>(run_.recomputed_together, blocks_count_)) *
          block_bytes(a_block_, Recompute::scores);
    } else if (recomputes_mlp(a_block_)) {
      to.working += mlp_bytes(a_block_);
    }
    if (run_.recompute != Recompute::nothing && !flash()) {
      // Scores of the block that is computed, where they are written.
      to.working += block_bytes(a_block_, Recompute::nothing) -
          block_bytes(a_block_, Recompute::scores);
    }
  }

  /// What the head and the loss need at their peak.
  double head_bytes() const {
    const model::ModelDescription& d = training_.model;
    const Program& program = training_.program;
    const double value = training_.value_bytes;
    const auto hidden = static_cast<double>(d.hidden);
    const double words = static_cast<double>(d.padded_vocabulary) /
        static_cast<double>(run_.tensor);
    const double tokens = samples() *
        static_cast<double>(training_.decoder_sequence > 0
                                ? training_.decoder_sequence
                                : training_.sequence);
    const double scored = program.scored_share * tokens;
    if (program.loss == Program::Loss::whole) {
      return program.logit_bytes * value / 2 * scored * words;
    }
    const auto chunk = static_cast<double>(model::tokens_per_head_chunk(
        static_cast<std::int64_t>(words),
        program.loss == Program::Loss::chunks_of_cpu));
    // Scores become their gradients where they are. The weight's gradient is in
    // fp32; the last norm has an input and a result, and they a gradient.
    return value * std::min(chunk, scored) * words + 4 * words * hidden +
        value * hidden * (2 * tokens + scored);
  }

  double samples() const {
    return static_cast<double>(run_.micro_batch) /
        static_cast<double>(run_.context);
  }

  /// Elements of the largest bucket of gradients.
  double bucket() const {
    // A parameter that is larger has a bucket of its own.
    return std::max(
        bucket_elements(training_, run_, held_),
        std::min(largest_parameter_, held_));
  }

  bool flash() const { return training_.program.flash(); }

  double about_owned() const {
    const auto ranks = static_cast<double>(shard_ranks(run_));
    const double expert_ranks =
        std::max(1.0, ranks / static_cast<double>(run_.expert));
    return (held_ - experts_) / ranks + experts_ / expert_ranks;
  }

  /// How blocks are kept that are not computed again as a whole.
  Recompute own_recompute() const {
    return run_.recompute == Recompute::blocks ? Recompute::scores
                                               : run_.recompute;
  }

  /// Values of an MLP's inner width that are kept for a token.
  double inner_values(std::int64_t block) const {
    const model::ModelDescription& d = training_.model;
    const std::int64_t layer = block % std::max<std::int64_t>(1, d.layers);
    const double mlps = model::experts_in_layer(d, layer) > 0
        ? static_cast<double>(d.experts->top_k + (d.experts->residual ? 1 : 0))
        : 1;
    return mlps * static_cast<double>(d.ffn) / static_cast<double>(run_.tensor);
  }

  bool has_experts(std::int64_t block) const {
    const model::ModelDescription& d = training_.model;
    return model::experts_in_layer(
               d,
               block % std::max<std::int64_t>(1, d.layers)) > 0;
  }

  bool recomputes_mlp(std::int64_t block) const {
    return has_experts(block) ? run_.recompute_mixtures : run_.recompute_mlps;
  }

  double tokens_of(std::int64_t block) const {
    return samples() *
        static_cast<double>(
               block >= training_.model.layers ? training_.decoder_sequence
                                               : training_.sequence);
  }

  /// What an MLP keeps beside its input.
  double mlp_bytes(std::int64_t block) const {
    const double widths =
        training_.model.gated ? (training_.program.fused_gate ? 3 : 4) : 2;
    return training_.value_bytes * widths * inner_values(block) *
        tokens_of(block);
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
    all /= static_cast<double>(run_.context);
    if (how == model::Recompute::blocks) {
      return all;
    }
    return training_.program.kept_share * all + beside_formula(block);
  }

  /// What a block keeps beside, or less than, the layers' formula.
  double beside_formula(std::int64_t block) const {
    const model::ModelDescription& d = training_.model;
    const auto ranks = static_cast<double>(run_.tensor);
    const auto hidden = static_cast<double>(d.hidden);
    const double whole = run_.sequence_parallel ? 1 / ranks : 1;
    const double query = static_cast<double>(d.heads * d.head_size) / ranks;
    const double attentions = block >= d.layers ? 2 : 1;
    const double norms = 1 + attentions;
    const double value = training_.value_bytes;
    double token = 0; // bytes
    if (training_.program.is_cairn) {
      // In fp32: a mean and a variance of each norm, the sum of each softmax.
      constexpr double number = 4;
      token += norms * 2 * number * whole +
          attentions * number * static_cast<double>(d.heads) / ranks;
    }
    const bool eight = training_.eight_bit && training_.program.keeps_eight_bit;
    if (eight) {
      // Inputs of products lose a byte each. Attention's result is kept in both
      // widths, since its own backward pass reads it.
      token += attentions * query -
          (value - 1) * (norms * hidden * whole + inner_values(block));
    } else if (run_.recompute_norms) {
      token -= value * norms * hidden * whole;
    }
    if (has_experts(block) && run_.recompute_expert_activations) {
      token -= (eight ? 1 : value) * inner_values(block);
    }
    double all = token * tokens_of(block);
    if (recomputes_mlp(block)) {
      all -= mlp_bytes(block) -
          (eight ? (value - 1) * inner_values(block) * tokens_of(block) : 0);
    }
    return all;
  }

  const Training& training_;
  const RunLayout& run_;
  const std::vector<const PartShare*>& parts_;
  double held_ = 0;
  double experts_ = 0;
  double largest_ = 0; ///< parameters of a block
  double held_in_blocks_ = 0;
  std::int64_t blocks_count_ = 0;
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
