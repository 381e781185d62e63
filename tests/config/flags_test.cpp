#include "config/flags/flag_parser.h"
#include "config/keys/key.h"
#include "support/error_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace cairn::config::flags_test {
namespace {

Flags flags_of(const std::vector<std::string>& arguments) {
  return parse_flags(arguments).flags;
}

std::string error_of(const std::vector<std::string>& arguments) {
  return error_text([&] { parse_flags(arguments); });
}

TEST(Flags, TheTableIsSound) {
  std::set<std::string> seen;
  const auto normal = [](std::string_view view) {
    std::string name(view);
    std::replace(name.begin(), name.end(), '_', '-');
    return name;
  };
  for (const Flag& flag : flag_table()) {
    EXPECT_TRUE(seen.insert(normal(flag.name)).second) << flag.name;
    for (const std::string_view alias : words_in(flag.aliases)) {
      EXPECT_TRUE(seen.insert(normal(alias)).second) << alias;
    }
    EXPECT_TRUE(flag.help.ends_with(".")) << flag.name;
    if (!flag.json.empty()) {
      EXPECT_NE(find_key(flag.json), nullptr) << flag.name;
    }
    EXPECT_EQ(find_refused_flag(flag.name), nullptr) << flag.name;
  }
  for (const RefusedFlags& row : refused_flags()) {
    EXPECT_EQ(row.names.find("--"), std::string_view::npos);
    EXPECT_EQ(row.names.find("  "), std::string_view::npos) << row.names;
    for (const std::string_view name : words_in(row.names)) {
      EXPECT_TRUE(seen.insert("--" + normal(name)).second) << name;
    }
  }
}

TEST(Flags, ValuesAreUtf8) {
  EXPECT_EQ(
      error_of({"--save", "run/\xff"}),
      "--save: \"run/\\xff\" is not UTF-8 text; rename the file, or set the "
      "terminal to UTF-8");
  EXPECT_EQ(*flags_of({"--save", "lauf/ü"}).checkpointing.save, "lauf/ü");
}

TEST(Flags, TheTableOfTakenFlagsIsSound) {
  std::set<std::string_view> seen;
  for (const TakenFlags& row : taken_flags()) {
    EXPECT_FALSE(row.reason.ends_with(".")) << row.reason;
    for (const std::string_view name : words_in(row.names)) {
      EXPECT_TRUE(seen.insert(name).second) << name;
      const std::string flag = "--" + std::string(name);
      EXPECT_EQ(find_flag(flag), nullptr) << name;
      EXPECT_EQ(find_refused_flag(flag), nullptr) << name;
      EXPECT_EQ(find_taken_flag(flag), &row) << name;
    }
  }
}

TEST(Flags, OtherWordsMeanFlagsOfOurs) {
  for (const OtherWords& row : other_words()) {
    const std::string flag = "--" + std::string(row.name);
    EXPECT_EQ(find_flag(flag), nullptr) << flag;
    EXPECT_EQ(find_taken_flag(flag), nullptr) << flag;
    EXPECT_EQ(find_refused_flag(flag), nullptr) << flag;
    EXPECT_NE(find_flag(words_in(row.means).front()), nullptr) << flag;
  }
  const ParsedFlags parsed = parse_flags(
      {"--use_megatron_fsdp",
       "--data-parallel-sharding-strategy=optim_grads_params",
       "--fp8-hybrid",
       "--virtual-pipeline-model-parallel-size",
       "3"});
  EXPECT_EQ(parsed.flags.deepspeed.zero_stage, 3);
  EXPECT_EQ(parsed.flags.distributed.virtual_stages, 3);
  EXPECT_TRUE(parsed.given.contains("--fp8-format"));
  EXPECT_THAT(
      parsed.warnings,
      ::testing::Contains(
          "--data-parallel-sharding-strategy optim_grads_params means "
          "--zero-stage 3"));
  EXPECT_THAT(
      error_of({"--data-parallel-sharding-strategy", "half"}),
      ::testing::HasSubstr(
          "choose no_shard, optim, optim_grads, optim_grads_params"));
}

TEST(Flags, TakesWhatChangesNothing) {
  EXPECT_EQ(
      parse_flags({"--manual-gc", "--attention_backend=flash", "--seed", "1"})
          .warnings,
      (std::vector<std::string>{
          "--manual-gc has no effect: there is no Python garbage collector in "
          "the process",
          "--attention_backend flash has no effect: attention runs on the "
          "fastest kernel for the device and the sizes"}));
  EXPECT_TRUE(parse_flags({"--manual-gc"}).given.empty());
  EXPECT_EQ(
      error_of({"--attention-backend", "fast"}),
      "--attention-backend: \"fast\" is no value of it; leave it out, or "
      "choose auto, flash, fused, unfused, local");
  EXPECT_EQ(
      error_of({"--attention-backend", "--seed", "1"}),
      "--attention-backend: takes a value, got none; write "
      "--attention-backend TEXT");
  EXPECT_EQ(
      error_of({"--moe-router-dtype", "fp64"}),
      "--moe-router-dtype: \"fp64\" is not supported by Cairn: the router's "
      "scores are in fp32; leave it out, or choose fp32");
  EXPECT_EQ(
      error_of({"--manual-gc=1"}),
      "--manual-gc: takes no value, got \"1\"; write --manual-gc");
}

TEST(Flags, ReadsAnExampleScript) {
  const Flags flags = flags_of(
      {"--num-layers",
       "24",
       "--hidden-size=1024",
       "--num-attention-heads",
       "16",
       "--seq-length",
       "1024",
       "--max-position-embeddings",
       "1024",
       "--micro-batch-size",
       "4",
       "--global-batch-size",
       "8",
       "--lr",
       "0.00015",
       "--train-iters",
       "500000",
       "--lr-decay-iters",
       "320000",
       "--lr-decay-style",
       "cosine",
       "--vocab-file",
       "v.json",
       "--merge-file",
       "m.txt",
       "--lr-warmup-fraction",
       ".01",
       "--fp16",
       "--data-path",
       "0.3",
       "a",
       "0.7",
       "b",
       "--split",
       "949,50,1"});
  EXPECT_EQ(flags.model.num_layers, 24);
  EXPECT_EQ(flags.model.hidden_size, 1024);
  EXPECT_EQ(flags.learning_rate.lr, 0.00015);
  EXPECT_EQ(flags.learning_rate.decay_style, LrDecayStyle::cosine);
  EXPECT_EQ(flags.learning_rate.warmup_fraction, 0.01);
  EXPECT_EQ(flags.precision.fp16, true);
  EXPECT_EQ(
      flags.data.data_path,
      (std::vector<std::string>{"0.3", "a", "0.7", "b"}));
  EXPECT_EQ(flags.tokenizer.vocab_file, "v.json");
}

TEST(Flags, BothSpellings) {
  EXPECT_EQ(flags_of({"--vocab", "x"}).tokenizer.vocab_file, "x");
  EXPECT_EQ(flags_of({"--top_p", "0.9"}).generation.top_p, 0.9);
  EXPECT_EQ(flags_of({"--top-p", "0.9"}).generation.top_p, 0.9);
  EXPECT_EQ(flags_of({"--top-k", "5"}).generation.top_k, 5);
  EXPECT_EQ(
      flags_of({"--json-key", "body"}).preprocess.json_keys,
      std::vector<std::string>{"body"});
  EXPECT_EQ(flags_of({"--dataset-impl", "lazy"}).data.impl, DatasetImpl::lazy);
  EXPECT_EQ(flags_of({"--local-rank=3"}).distributed.local_rank, 3);
  EXPECT_EQ(flags_of({}).distributed.local_rank, -1);
  EXPECT_EQ(flags_of({"--num_heads", "8"}).model.num_attention_heads, 8);
  EXPECT_EQ(flags_of({"--num-query-groups", "2"}).model.num_key_value_heads, 2);
}

TEST(Flags, NumbersAsArgparseReadsThem) {
  EXPECT_EQ(flags_of({"--local_rank", "-1"}).distributed.local_rank, -1);
  EXPECT_EQ(flags_of({"--min-lr", "1e-5"}).learning_rate.min_lr, 1e-5);
  EXPECT_EQ(
      flags_of({"--train-tokens", "3e9"}).training.train_tokens,
      3000000000);
  EXPECT_EQ(
      flags_of({"--rampup-batch-size", "16", "16", "5859375"})
          .training.rampup_batch_size,
      (std::vector<std::int64_t>{16, 16, 5859375}));
  EXPECT_EQ(flags_of({"--seed", "1", "--seed", "2"}).training.seed, 2);
}

TEST(Flags, SwitchesThatTurnOff) {
  EXPECT_TRUE(flags_of({}).model.bert_binary_head);
  EXPECT_FALSE(flags_of({"--bert-no-binary-head"}).model.bert_binary_head);
}

TEST(Flags, OldNamesWarn) {
  const ParsedFlags parsed = parse_flags(
      {"--model-parallel-size", "2", "--batch-size", "4", "--deepscale"});
  EXPECT_EQ(parsed.flags.distributed.tensor_parallel, 2);
  EXPECT_EQ(
      parsed.warnings,
      (std::vector<std::string>{
          "--model-parallel-size is the old name of "
          "--tensor-model-parallel-size",
          "--batch-size is the old name of --micro-batch-size",
          "--deepscale is the old name of --deepspeed"}));
}

TEST(Flags, OtherValuesForTheSameFlagWarn) {
  EXPECT_EQ(
      parse_flags({"--vocab", "a", "--vocab-file", "b"}).warnings.back(),
      "--vocab \"a\" is overridden by --vocab-file \"b\": the last one counts");
  EXPECT_EQ(
      parse_flags({"--seed", "1", "--seed=2"}).warnings,
      std::vector<std::string>{
          "--seed 1 is overridden by --seed 2: the last one counts"});
  EXPECT_TRUE(parse_flags({"--seed", "2", "--seed", "2"}).warnings.empty());
}

TEST(Flags, Mistakes) {
  EXPECT_EQ(
      error_of({"--data-path"}),
      "--data-path: takes at least one value, got none; write --data-path "
      "TEXT…");
  EXPECT_EQ(
      error_of({"--num-layer", "2"}),
      "--num-layer: unknown flag; did you mean --num-layers?");
  EXPECT_EQ(
      error_of({"--use-checkpoint-arg"}),
      "--use-checkpoint-arg: unknown flag; did you mean "
      "--use-checkpoint-args?");
  EXPECT_EQ(
      error_of({"--num-layers"}),
      "--num-layers: takes a value, got none; write --num-layers N");
  EXPECT_EQ(
      error_of({"--num-layers", "--fp16"}),
      "--num-layers: takes a value, got none; write --num-layers N");
  EXPECT_EQ(
      error_of({"--num-layers", "two"}),
      "--num-layers: expected an integer, got \"two\"");
  EXPECT_EQ(
      error_of({"--num-layers", "0"}),
      "--num-layers: 0 is out of range; it must be at least 1");
  EXPECT_EQ(
      error_of({"--rampup-batch-size", "16", "16"}),
      "--rampup-batch-size: takes 3 values, got 2; write --rampup-batch-size N "
      "N N");
  EXPECT_EQ(
      error_of({"--lr-decay-style", "cosin"}),
      "--lr-decay-style: expected \"constant\", \"linear\", \"cosine\", "
      "\"inverse-square-root\" or \"WSD\", got \"cosin\"; did you mean "
      "\"cosine\"?");
  EXPECT_EQ(
      error_of({"--fp16=yes"}),
      "--fp16: takes no value, got \"yes\"; write --fp16");
  EXPECT_EQ(
      error_of({"stray"}),
      "unexpected argument \"stray\"; values stand after the flag they belong "
      "to");
  EXPECT_EQ(
      error_of({"--tp-only-amax-red"}),
      "--tp-only-amax-red: known to Megatron-LM, not supported by Cairn: with "
      "--fp8-recipe delayed every update renews the scales, and all ranks that "
      "have a layer agree on them");
  EXPECT_EQ(
      error_of({"--num_gpus", "8"}),
      "--num_gpus: a flag of `cairn launch`; put it before the program, as in "
      "`cairn launch --num_gpus 8 pretrain gpt`");
}

// Every flag that the capability list names must be in the table.
TEST(Flags, TheFlagsPeopleKnow) {
  for (const char* name :
       {"--num-layers",
        "--hidden-size",
        "--num-attention-heads",
        "--seq-length",
        "--max-position-embeddings",
        "--micro-batch-size",
        "--global-batch-size",
        "--rampup-batch-size",
        "--train-iters",
        "--train-samples",
        "--train-tokens",
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
        "--adam-beta1",
        "--adam-beta2",
        "--weight-decay",
        "--clip-grad",
        "--init-method-std",
        "--seed",
        "--log-interval",
        "--save-interval",
        "--eval-interval",
        "--eval-iters",
        "--save",
        "--load",
        "--finetune",
        "--no-load-optim",
        "--no-load-rng",
        "--no-save-rng",
        "--vocab-file",
        "--merge-file",
        "--tokenizer-type",
        "--data-path",
        "--fp16",
        "--bf16",
        "--fp32-allreduce",
        "--checkpoint_dir",
        "--num_iterations",
        "--local_rank",
        "--log_every",
        "--load_checkpoint_dir",
        "--mask_prob",
        "--max_seq_length",
        "--num_layers",
        "--num_heads",
        "--ff_dim",
        "--h_dim",
        "--batch_size",
        "--checkpoint_every",
        "--zero-stage",
        "--DDP-impl",
        "--tensor-model-parallel-size",
        "--pipeline-model-parallel-size",
        "--no-pipeline-parallel",
        "--checkpoint-activations",
        "--deepspeed-activation-checkpointing",
        "--use-flash-attn",
        "--bert-no-binary-head",
        "--input",
        "--output-prefix",
        "--vocab",
        "--dataset-impl",
        "--append-eod",
        "--workers",
        "--split-sentences",
        "--keep-newlines",
        "--partitions",
        "--json-key",
        "--data-impl",
        "--split",
        "--data-cache-path",
        "--num-workers",
        "--train-data",
        "--lazy-loader",
        "--out-seq-length",
        "--temperature",
        "--genfile",
        "--num-samples",
        "--recompute",
        "--sample-input-file",
        "--sample-output-file",
        "--greedy",
        "--task",
        "--valid-data",
        "--overlapping-eval",
        "--strict-lambada",
        "--epochs",
        "--pretrained-checkpoint",
        "--tensorboard-dir",
        "--tensorboard-queue-size",
        "--log-timers-to-tensorboard",
        "--log-batch-size-to-tensorboard",
        "--log-validation-ppl-to-tensorboard",
        "--log-optimizer-states-to-tensorboard",
        "--tensorboard-log-interval",
        "--log-memory-to-tensorboard",
        "--log-world-size-to-tensorboard",
        "--profile-steps",
        "--model-type",
        "--target-pipeline-model-parallel-size",
        "--deepspeed",
        "--deepspeed_config",
        "--deepscale",
        "--deepscale_config",
        "--async-save",
        "--use-rotary-position-embeddings",
        "--swiglu",
        "--normalization",
        "--num-key-value-heads",
        "--model-parallel-size",
        "--exit-interval",
        "--exit-duration-in-mins",
        "--exit-signal-handler",
        "--deterministic",
        "--sequence-parallel",
        "--keep-last",
        "--keep-every"}) {
    EXPECT_NE(find_flag(name), nullptr) << name;
  }
}

} // namespace
} // namespace cairn::config::flags_test
