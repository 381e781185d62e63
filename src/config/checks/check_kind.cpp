#include "config/internal/check_kind.h"
#include "config/checks/check.h"
#include "config/internal/elastic_batch.h"
#include "config/internal/expert_layers.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace cairn::config {
namespace {

/// Refuses settings that only GPT's samples and layers can follow.
void check_gpt_only(model::ModelKind kind, const Config& config) {
  if (kind == model::ModelKind::gpt) {
    return;
  }
  const auto only_gpt =
      [&](const char* name, const char* what, const char* why) {
        refuse(
            config,
            name,
            fmt::format("{} (pretrain {})", what, name_of(kind)),
            fmt::format("leave it out: {}", why));
      };
  const Flags& flags = config.flags;
  if (flags.data.random_ltd) {
    only_gpt(
        "--random-ltd",
        "tokens are dropped in GPT's layers only",
        "the others have masks of whole sequences");
  }
  if (config.deepspeed.curriculum.enabled) {
    only_gpt(
        "curriculum_learning",
        "only GPT's samples can be cut",
        "what is masked, and where a sentence ends, is chosen for the whole "
        "sample");
  }
  if (flags.data.reset_attention_mask) {
    only_gpt(
        "--reset-attention-mask",
        "documents are kept apart in GPT's samples only",
        "the others' samples are of one document");
  }
}

/// Refuses settings that ranks which share sequences cannot follow.
void check_context(model::ModelKind kind, const Config& config) {
  const Flags& flags = config.flags;
  const DistributedFlags& ranks = flags.distributed;
  if (ranks.context_parallel == 1) {
    return;
  }
  if (kind != model::ModelKind::gpt) {
    refuse(
        config,
        "--context-parallel-size",
        "ranks share the sequences of left-to-right models only: the others' "
        "attention has masks",
        "use tensor and sequence parallelism for BERT and T5");
  }
  if (flags.model.position_embedding == PositionEmbedding::relative) {
    refuse(
        config,
        "--position-embedding-type",
        "relative positions are added to the scores of whole sequences",
        "use rope or learned_absolute with --context-parallel-size");
  }
  if (ranks.context_parallel_kind == ContextParallelKind::ring) {
    return;
  }
  const auto refuse_heads = [&](std::int64_t count,
                                const char* flag,
                                const char* remedy) {
    refuse(
        config,
        flag,
        fmt::format(
            "{} heads cannot be exchanged among context {} x tensor {} ranks",
            count,
            ranks.context_parallel,
            ranks.tensor_parallel),
        remedy);
  };
  const auto heads = flags.model.num_attention_heads;
  if (heads && *heads % (ranks.tensor_parallel * ranks.context_parallel) != 0) {
    refuse_heads(
        *heads,
        "--num-attention-heads",
        "make it a multiple of them, or use --cp-comm-type p2p, which takes "
        "any heads");
  }
  const auto shared = flags.model.num_key_value_heads;
  if (!shared || *shared % ranks.tensor_parallel != 0) {
    return; // the latter is refused elsewhere
  }
  const std::int64_t own = *shared / ranks.tensor_parallel;
  if (own % ranks.context_parallel != 0 && ranks.context_parallel % own != 0) {
    refuse_heads(
        *shared,
        "--num-key-value-heads",
        "let --context-parallel-size divide a tensor parallel rank's heads of "
        "keys and values, or be a multiple of them; or use --cp-comm-type p2p, "
        "which takes any heads");
  }
}

} // namespace

void check_kind(model::ModelKind kind, const Config& config) {
  if (config.flags.training.per_token_loss &&
      (kind != model::ModelKind::gpt || config.flags.data.eod_mask_loss)) {
    refuse(
        config,
        "--calculate-per-token-loss",
        "the loss is the mean over a micro batch, then over micro batches, and "
        "here micro batches differ in the tokens that count",
        "leave it out");
  }
  check_gpt_only(kind, config);
  check_context(kind, config);
  const MoeFlags& experts = config.flags.moe;
  if (has_experts(experts) && experts.noise == model::RouterNoise::sample &&
      experts.topk != 1) {
    refuse(
        config,
        "--moe-noisy-gate-policy",
        "the first expert is drawn (RSample) with --topk 1 only");
  }
  require_model_ranks(
      config.deepspeed.elasticity,
      config.world_size / config.data_parallel_size);
}

} // namespace cairn::config
