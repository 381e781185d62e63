#include "pretrain/check_context.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <string>

namespace cairn::pretrain {

namespace {

[[noreturn]] void refuse_shared(
    const std::string& what,
    const std::string& where,
    const std::string& remedy) {
  throw ConfigError({.what = what, .where = where, .remedy = remedy});
}

} // namespace

void check_context(
    const checkpoints::ModelDescription& d,
    const config::Flags& flags) {
  using checkpoints::ModelFamily;
  const config::DistributedFlags& ranks = flags.distributed;
  if (ranks.context_parallel == 1) {
    return;
  }
  if (d.family != ModelFamily::gpt2 && d.family != ModelFamily::llama) {
    refuse_shared(
        "ranks share the sequences of left-to-right models only: the others' "
        "attention has masks",
        "--context-parallel-size",
        "use tensor and sequence parallelism for BERT and T5");
  }
  if (d.position == checkpoints::PositionKind::relative) {
    refuse_shared(
        "relative positions are added to the scores of whole sequences",
        "--position-embedding-type relative",
        "use rope or learned_absolute with --context-parallel-size");
  }
  if (d.experts) {
    refuse_shared(
        "experts have room for the tokens of whole sequences",
        "--num-experts",
        "leave it out with --context-parallel-size");
  }
  if (flags.data.reset_attention_mask) {
    refuse_shared(
        "documents are kept apart by a mask of whole sequences",
        "--reset-attention-mask",
        "leave it out with --context-parallel-size");
  }
  if (ranks.context_parallel_kind == config::ContextParallelKind::ring) {
    if (d.attention_dropout > 0) {
      refuse_shared(
          fmt::format(
              "ring attention drops no weights, {} are asked for",
              d.attention_dropout),
          "--attention-dropout",
          "give --attention-dropout 0, or --cp-comm-type a2a");
    }
    return;
  }
  const std::int64_t parts = ranks.tensor_parallel * ranks.context_parallel;
  for (const auto& [count, flag] :
       {std::pair{d.heads, "--num-attention-heads"},
        std::pair{d.key_value_heads, "--num-key-value-heads"}}) {
    if (count % parts != 0) {
      refuse_shared(
          fmt::format(
              "{} heads cannot be exchanged among context {} x tensor {} ranks",
              count,
              ranks.context_parallel,
              ranks.tensor_parallel),
          flag,
          "make it a multiple of them, or use --cp-comm-type p2p, which takes "
          "any heads");
    }
  }
}

} // namespace cairn::pretrain
