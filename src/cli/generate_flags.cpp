#include "cli/generate_flags.h"

#include "pretrain/used_flags.h"

#include <cairn/base/error.h>
#include <cairn/pretrain/pretrain.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace cairn::cli {
namespace {

const std::set<std::string_view> describe_the_model{
    "--num-layers",
    "--hidden-size",
    "--ffn-hidden-size",
    "--num-attention-heads",
    "--num-key-value-heads",
    "--group-query-attention",
    "--kv-channels",
    "--max-position-embeddings",
    "--position-embedding-type",
    "--use-rotary-position-embeddings",
    "--rotary-base",
    "--rotary-percent",
    "--normalization",
    "--norm-epsilon",
    "--swiglu",
    "--openai-gelu",
    "--disable-bias-linear",
    "--add-qkv-bias",
    "--untie-embeddings-and-output-weights",
    "--num-experts",
    "--mlp-type",
    "--expert-interval"};

const std::set<std::string_view> used_by_generate{
    "--load",
    "--ckpt-step",
    "--tokenizer-type",
    "--vocab-file",
    "--merge-file",
    "--tokenizer-model",
    "--vocab-size",
    "--vocab-extra-ids",
    "--seq-length",
    "--micro-batch-size",
    "--seed",
    "--fp16",
    "--bf16",
    "--deepspeed",
    "--deepspeed_config", // for the precision
    "--distributed-backend",
    "--local_rank",
    "--out-seq-length",
    "--temperature",
    "--greedy",
    "--top_k",
    "--top_p",
    "--num-samples",
    "--genfile",
    "--sample-input-file",
    "--sample-output-file",
    "--recompute"};

} // namespace

bool generate_acts_on(std::string_view flag) {
  return describe_the_model.contains(flag) || used_by_generate.contains(flag);
}

void check_generate_flags(const config::Config& config, const Logger& logger) {
  std::set<std::string_view> known = describe_the_model;
  known.insert(used_by_generate.begin(), used_by_generate.end());
  std::vector<std::string> of_training;
  for (const auto& [name, place] : config.given) {
    if (!generate_acts_on(name) && pretrain::acts_on(name)) {
      known.insert(name);
      of_training.push_back(name);
    }
  }
  pretrain::refuse_unused_flags(config, "generate", known);
  for (const std::string& warning : config.warnings) {
    logger.warning("{}", warning);
  }
  if (!of_training.empty()) {
    logger.info(
        "about training, and without effect here: {}",
        fmt::join(of_training, ", "));
  }
  if (!config.flags.checkpointing.load) {
    throw ConfigError(
        {.what = "no checkpoint is named",
         .where = "--load",
         .remedy = "see `cairn generate --help`"});
  }
}

} // namespace cairn::cli
