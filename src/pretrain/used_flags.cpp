#include "pretrain/used_flags.h"

#include <cairn/base/error.h>
#include <cairn/pretrain/pretrain.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::pretrain {

namespace {

const std::set<std::string_view> used_by_pretrain{
    // the model
    "--num-layers",
    "--encoder-num-layers",
    "--decoder-num-layers",
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
    "--relative-attention-num-buckets",
    "--relative-attention-max-distance",
    "--normalization",
    "--norm-epsilon",
    "--swiglu",
    "--openai-gelu",
    "--disable-bias-linear",
    "--add-qkv-bias",
    "--untie-embeddings-and-output-weights",
    "--make-vocab-size-divisible-by",
    "--bert-no-binary-head",
    "--use-flash-attn", // always, where the device has it
    "--init-method-std",
    "--num-experts",
    "--topk",
    "--mlp-type",
    "--moe-loss-coeff",
    "--moe-train-capacity-factor",
    "--moe-eval-capacity-factor",
    "--moe-min-capacity",
    "--expert-interval",
    "--disable-moe-token-dropping",
    "--disable-moe-random-token-selection",
    "--disable-moe-top2-2nd-expert-sampling",
    "--moe-noisy-gate-policy",
    // the run
    "--micro-batch-size",
    "--global-batch-size",
    "--rampup-batch-size",
    "--train-iters",
    "--train-samples",
    "--train-tokens",
    "--exit-interval",
    "--exit-duration-in-mins",
    "--exit-signal-handler",
    "--seed",
    "--deterministic",
    "--checkpoint-activations",
    "--deepspeed-activation-checkpointing",
    "--recompute-granularity",
    "--recompute-num-layers",
    "--optimizer",
    "--no-check-for-nan-in-loss-and-grad",
    "--attention-dropout",
    "--hidden-dropout",
    "--weight-decay",
    "--start-weight-decay",
    "--end-weight-decay",
    "--weight-decay-incr-style",
    "--clip-grad",
    "--adam-beta1",
    "--adam-beta2",
    "--adam-eps",
    "--sgd-momentum",
    "--lr",
    "--min-lr",
    "--lr-decay-style",
    "--lr-decay-iters",
    "--lr-decay-samples",
    "--lr-decay-tokens",
    "--lr-warmup-fraction",
    "--lr-warmup-iters",
    "--lr-warmup-samples",
    "--lr-warmup-tokens",
    "--lr-warmup-init",
    "--lr-wsd-decay-style",
    "--lr-wsd-decay-iters",
    "--lr-wsd-decay-samples",
    // checkpoints
    "--save",
    "--load",
    "--save-interval",
    "--keep-last",
    "--keep-every",
    "--ckpt-step",
    "--async-save",
    "--finetune",
    "--no-load-optim",
    "--no-load-rng",
    "--no-load-lr-state",
    "--no-save-optim",
    "--no-save-rng",
    "--exit-on-missing-checkpoint",
    // precision
    "--fp16",
    "--bf16",
    "--loss-scale",
    "--initial-loss-scale",
    "--min-loss-scale",
    "--loss-scale-window",
    "--hysteresis",
    "--fp32-allreduce",
    "--accumulate-allreduce-grads-in-fp32",
    "--attention-softmax-in-fp32", // always
    // ranks
    "--tensor-model-parallel-size",
    "--model-parallel-size",
    "--pipeline-model-parallel-size",
    "--expert-model-parallel-size",
    "--context-parallel-size",
    "--ds-sequence-parallel-size",
    "--cp-comm-type",
    "--sequence-parallel",
    "--pipeline-schedule",
    "--num-layers-per-virtual-pipeline-stage",
    "--num-virtual-stages-per-pipeline-rank",
    "--no-pipeline-parallel", // one stage is not run as a pipeline anyway
    "--DDP-impl",
    "--overlap-grad-reduce",
    "--use-distributed-optimizer",
    "--distributed-backend",
    "--distributed-timeout-minutes",
    "--local_rank",
    "--deepspeed",
    "--deepspeed_config",
    "--zero-stage",
    "--zero-reduce-bucket-size",
    // data
    "--data-path",
    "--train-data-path",
    "--valid-data-path",
    "--test-data-path",
    "--split",
    "--data-cache-path",
    "--num-workers",
    "--lazy-loader", // data is always mapped
    "--dataloader-type",
    "--seq-length",
    "--encoder-seq-length",
    "--decoder-seq-length",
    "--mask-prob",
    "--short-seq-prob",
    "--reset-position-ids",
    "--reset-attention-mask",
    "--eod-mask-loss",
    "--random-ltd",
    "--tokenizer-type",
    "--vocab-file",
    "--merge-file",
    "--tokenizer-model",
    "--vocab-size",
    "--vocab-extra-ids",
    // evaluation and log
    "--eval-iters",
    "--eval-interval",
    "--skip-train",
    "--log-interval",
    "--log-jsonl",
    "--peak-tflops",
    "--tensorboard-dir",
    "--tensorboard-log-interval",
    "--tensorboard-queue-size",
    "--log-batch-size-to-tensorboard",
    "--no-log-learning-rate-to-tensorboard",
    "--no-log-loss-scale-to-tensorboard",
    "--log-validation-ppl-to-tensorboard",
    "--log-memory-to-tensorboard",
    "--log-world-size-to-tensorboard",
    "--log-timers-to-tensorboard",
    "--log-optimizer-states-to-tensorboard",
    "--log-params-norm",
    "--log-num-zeros-in-grad",
    "--timing-log-level",
    "--timing-log-option",
    "--log-throughput", // in every line
    "--profile",
    "--profile-steps",
    "--profile-step-start",
    "--profile-step-end",
    "--profile-ranks"};

} // namespace

bool acts_on(std::string_view flag) {
  return used_by_pretrain.contains(flag);
}

void refuse_unused_flags(const config::Config& config) {
  refuse_unused_flags(config, "pretrain", used_by_pretrain);
}

void refuse_unused_flags(
    const config::Config& config,
    std::string_view command,
    const std::set<std::string_view>& used) {
  std::vector<std::string> unused;
  for (const auto& [name, place] : config.given) {
    if (name.starts_with("--") && !used.contains(name)) {
      unused.push_back(name);
    }
  }
  if (!unused.empty()) {
    const bool corpora = config.given.contains("--train-data") ||
        config.given.contains("--valid-data");
    throw ConfigError(
        {.what = fmt::format("{} does not act on these flags", command),
         .values = fmt::format("{}", fmt::join(unused, ", ")),
         .remedy = corpora ? "name preprocessed corpora by --data-path"
                           : "leave them out"});
  }
}

} // namespace cairn::pretrain
