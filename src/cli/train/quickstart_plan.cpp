#include "cli/train/quickstart_plan.h"

#include <string>

namespace cairn::cli {
namespace {

void add(Arguments& arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
}

} // namespace

Arguments QuickstartPlan::make_stories() const {
  return {
      "data",
      "sample-corpus",
      "--output",
      stories().string(),
      "--size",
      "20MB",
      "--overwrite"};
}

Arguments QuickstartPlan::train_tokenizer() const {
  return {
      "train-tokenizer",
      stories().string(),
      (folder / "tokenizer").string(),
      "--vocab-size",
      "512"};
}

Arguments QuickstartPlan::preprocess() const {
  return {
      "preprocess",
      "--input",
      stories().string(),
      "--output-prefix",
      (folder / "stories").string(),
      "--tokenizer-model",
      tokenizer().string(),
      "--append-eod"};
}

Arguments QuickstartPlan::pretrain(std::int64_t length) const {
  return {
      "launch",
      "--num_gpus",
      std::to_string(ranks),
      "pretrain",
      "gpt",
      "--num-layers",
      "4",
      "--hidden-size",
      "128",
      "--num-attention-heads",
      "4",
      "--hidden-dropout",
      "0",
      "--attention-dropout",
      "0",
      "--seq-length",
      std::to_string(sequence),
      "--micro-batch-size",
      std::to_string(batch / ranks),
      "--global-batch-size",
      std::to_string(batch),
      "--train-iters",
      std::to_string(length),
      "--lr",
      "3e-3",
      "--min-lr",
      "3e-4",
      "--lr-decay-style",
      "cosine",
      "--lr-warmup-fraction",
      "0.05",
      "--adam-beta2",
      "0.95",
      "--weight-decay",
      "0.1",
      "--zero-stage",
      "2",
      "--data-path",
      (folder / "stories_text_document").string(),
      "--split",
      "98,2,0",
      "--tokenizer-model",
      tokenizer().string()};
}

Arguments QuickstartPlan::try_out(std::int64_t trial) const {
  Arguments arguments = pretrain(trial);
  add(arguments, {"--eval-iters", "0"});
  return arguments;
}

Arguments QuickstartPlan::train() const {
  Arguments arguments = pretrain(iterations);
  add(arguments,
      {"--eval-interval",
       std::to_string(iterations),
       "--eval-iters",
       "10",
       "--log-interval",
       "10",
       "--log-jsonl",
       metrics().string(),
       "--save",
       checkpoints().string(),
       "--load",
       checkpoints().string(),
       "--save-interval",
       std::to_string(save_interval)});
  return arguments;
}

Arguments QuickstartPlan::tell_stories() const {
  return {
      "generate",
      "--load",
      checkpoints().string(),
      "--tokenizer-model",
      tokenizer().string(),
      "--num-samples",
      "4",
      "--temperature",
      "0.8",
      "--genfile",
      told().string()};
}

} // namespace cairn::cli
