#include "config/internal/virtual_stages.h"
#include "support/error_text.h"

#include <cairn/config/config.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace cairn::config::check_test {
namespace {

using Words = std::vector<std::string>;

std::string error_of(Words flags, std::int64_t world = 8) {
  return error_text(
      [&] { Config::load({.flags = std::move(flags), .world_size = world}); });
}

void accept(Words flags, std::int64_t world = 8) {
  EXPECT_NO_THROW(
      Config::load({.flags = std::move(flags), .world_size = world}));
}

TEST(Check, Shapes) {
  accept(
      {"--hidden-size",
       "1024",
       "--num-attention-heads",
       "16",
       "--tensor-model-parallel-size",
       "4"});
  EXPECT_EQ(
      error_of({"--hidden-size", "1000", "--num-attention-heads", "16"}),
      "--hidden-size: 1000 is not divisible by --num-attention-heads 16; "
      "make it a multiple of 16, or change --num-attention-heads");
  accept(
      {"--hidden-size",
       "1000",
       "--num-attention-heads",
       "16",
       "--kv-channels",
       "64"});
  EXPECT_EQ(
      error_of(
          {"--num-attention-heads", "6", "--tensor-model-parallel-size", "4"}),
      "--num-attention-heads: 6 is not divisible by "
      "--tensor-model-parallel-size 4; make it a multiple of 4, or change "
      "--tensor-model-parallel-size");
  EXPECT_NE(
      error_of({"--num-attention-heads", "6", "--num-key-value-heads", "4"}),
      "");
  const auto few_keys = [](const char* heads) {
    return Words{
        "--num-attention-heads",
        "12",
        "--num-query-groups",
        heads,
        "--tensor-model-parallel-size",
        "4"};
  };
  accept(few_keys("2")); // two ranks share a head
  accept(few_keys("1"));
  EXPECT_EQ(
      error_of(few_keys("6")),
      "--num-query-groups: 6 is not divisible by "
      "--tensor-model-parallel-size 4; make it a multiple of 4, or change "
      "--tensor-model-parallel-size");
  EXPECT_EQ(
      error_of({"--seq-length", "2048", "--max-position-embeddings", "1024"}),
      "--seq-length: 2048 tokens, but --max-position-embeddings is 1024; raise "
      "--max-position-embeddings");
  accept({"--num-layers", "25", "--pipeline-model-parallel-size", "4"});
  EXPECT_NE(
      error_of({"--seq-length", "100", "--context-parallel-size", "8"}),
      "");
  accept({"--seq-length", "128", "--context-parallel-size", "8"});
}

TEST(Check, DeepSpeedsSequenceParallelismExchangesHeads) {
  const auto degrees = [](const Words& flags) {
    return Config::load({.flags = flags, .world_size = 2}).flags.distributed;
  };
  const Words theirs{"--ds-sequence-parallel-size", "2"};
  EXPECT_EQ(degrees(theirs).context_parallel, 2);
  EXPECT_EQ(
      degrees(theirs).context_parallel_kind,
      ContextParallelKind::ulysses);
  Words ring = theirs;
  ring.insert(ring.end(), {"--cp-comm-type", "p2p"});
  EXPECT_EQ(degrees(ring).context_parallel_kind, ContextParallelKind::ring);
  Words both = theirs;
  both.insert(both.end(), {"--context-parallel-size", "4"});
  EXPECT_EQ(
      error_of(both),
      "--ds-sequence-parallel-size: contradicts --context-parallel-size (2 and "
      "4); drop one of the two");
}

TEST(Check, Pipelines) {
  EXPECT_NE(error_of({"--pipeline-schedule", "interleaved"}), "");
  EXPECT_NE(error_of({"--num-layers-per-virtual-pipeline-stage", "2"}), "");
  accept(
      {"--num-layers",
       "16",
       "--pipeline-model-parallel-size",
       "4",
       "--num-layers-per-virtual-pipeline-stage",
       "2"});
  const Words virtual_stages{
      "--pipeline-model-parallel-size",
      "2",
      "--num-layers-per-virtual-pipeline-stage",
      "2"};
  EXPECT_EQ(
      Config::load({.flags = virtual_stages, .world_size = 2})
          .flags.distributed.pipeline_schedule,
      PipelineSchedule::interleaved);
  Words contradiction = virtual_stages;
  contradiction.insert(contradiction.end(), {"--pipeline-schedule", "zb-h1"});
  EXPECT_EQ(
      error_of(contradiction),
      "--num-layers-per-virtual-pipeline-stage: contradicts "
      "--pipeline-schedule: only the interleaved schedule has virtual stages; "
      "drop one of the two");
  Words by_number{
      "--num-layers",
      "12",
      "--pipeline-model-parallel-size",
      "2",
      "--num-virtual-stages-per-pipeline-rank",
      "3"};
  EXPECT_EQ(
      Config::load({.flags = by_number, .world_size = 2})
          .flags.distributed.pipeline_schedule,
      PipelineSchedule::interleaved);
  by_number.insert(
      by_number.end(),
      {"--num-layers-per-virtual-pipeline-stage", "2"});
  EXPECT_EQ(
      error_of(by_number),
      "--num-virtual-stages-per-pipeline-rank: not with "
      "--num-layers-per-virtual-pipeline-stage: both say how many virtual "
      "stages; drop one of the two");
  EXPECT_EQ(
      error_of(
          {"--no-pipeline-parallel", "--pipeline-model-parallel-size", "2"}),
      "--no-pipeline-parallel: contradicts --pipeline-model-parallel-size 2");
}

TEST(VirtualStages, ByNumberOrByLayers) {
  DistributedFlags flags{.pipeline_parallel = 2};
  EXPECT_EQ(virtual_stages(flags, 12), 1);
  flags.layers_per_virtual_stage = 2;
  EXPECT_EQ(virtual_stages(flags, 12), 3);
  EXPECT_EQ(
      error_text([&] { virtual_stages(flags, 25); }),
      "--num-layers-per-virtual-pipeline-stage: the layers do not fill the "
      "virtual stages (25 layers, 2 on each virtual stage, 2 stages); let the "
      "layers be a multiple of the other two together");
  flags.layers_per_virtual_stage.reset();
  flags.virtual_stages = 3;
  EXPECT_EQ(virtual_stages(flags, 12), 3);
  flags.virtual_stages = 7;
  EXPECT_EQ(
      error_text([&] { virtual_stages(flags, 12); }),
      "--num-virtual-stages-per-pipeline-rank: the layers do not fill the "
      "virtual stages (12 layers, 7 virtual stages on each rank, 2 stages); "
      "let "
      "the layers be a multiple of the other two together");
}

TEST(Check, Experts) {
  EXPECT_NE(error_of({"--expert-model-parallel-size", "2"}), "");
  EXPECT_NE(
      error_of({"--num-experts", "6", "--expert-model-parallel-size", "4"}),
      "");
  const Words shared{"--num-experts", "8", "--expert-model-parallel-size", "4"};
  accept(shared);
  for (const char* key :
       {R"("mics_shard_size": 2)",
        R"("zero_hpz_partition_size": 2)",
        R"("zero_quantized_weights": true)"}) {
    EXPECT_NE(
        error_text([&] {
          Config::load(
              {.json = fmt::format(
                   R"({{"train_micro_batch_size_per_gpu": 1,
                       "zero_optimization": {{"stage": 3, {}}}}})",
                   key),
               .flags = shared,
               .world_size = 8});
        }).find("ZeRO++ and MiCS"),
        std::string::npos)
        << key;
  }
}

TEST(Check, RampUp) {
  const Words base{"--micro-batch-size", "2", "--global-batch-size", "1536"};
  const auto with = [&](std::initializer_list<const char*> rampup) {
    Words words = base;
    words.push_back("--rampup-batch-size");
    words.insert(words.end(), rampup.begin(), rampup.end());
    return words;
  };
  accept(with({"16", "16", "5859375"}));
  EXPECT_EQ(
      error_of(with({"16", "48", "1000"})),
      "--rampup-batch-size: from 16 in steps of 48 never reaches the global "
      "batch 1536");
  EXPECT_EQ(
      error_of(with({"8", "8", "1000"})),
      "--rampup-batch-size: 8 is not a multiple of micro batch 2 x "
      "data-parallel size 8");
  EXPECT_NE(error_of(with({"16", "0", "1000"})), "");
  EXPECT_EQ(
      error_of(
          {"--micro-batch-size",
           "2",
           "--rampup-batch-size",
           "16",
           "16",
           "1000"}),
      "--rampup-batch-size: grows to the global batch, which is not given; add "
      "--global-batch-size");
}

TEST(Check, Blends) {
  accept({"--data-path", "a"});
  accept({"--data-path", "a", "b", "c"});
  accept({"--data-path", "0.3", "a", "0.7", "b"});
  EXPECT_EQ(
      error_of({"--data-path", "0.3", "a", "0.7"}),
      "--data-path: the weight 0.7 has no path after it; write weights and "
      "paths in turn, such as 0.3 a 0.7 b");
  EXPECT_NE(error_of({"--data-path", "0.3", "0.7"}), "");
  EXPECT_NE(error_of({"--data-path", "a", "0.7", "b"}), "");
}

TEST(Check, Fp8) {
  EXPECT_EQ(
      error_of({"--fp8-format", "hybrid"}),
      "--fp8-format: fp8 products give results of 16 bits; add --bf16");
  EXPECT_EQ(
      error_of({"--bf16", "--first-last-layers-bf16"}),
      "--first-last-layers-bf16: --first-last-layers-bf16 needs --fp8-format; "
      "add --fp8-format");
  EXPECT_EQ(
      error_of({"--bf16", "--fp8-format", "hybrid", "--fp8-recipe", "mxfp8"}),
      "--fp8-recipe: a matrix has one scale, and no blocks have scales of "
      "their own; use --fp8-recipe tensorwise or delayed");
  EXPECT_EQ(
      error_of(
          {"--bf16",
           "--fp8-format",
           "hybrid",
           "--fp8-margin",
           "1",
           "--fp8-recipe",
           "tensorwise"}),
      "--fp8-margin: only the recipe delayed goes by earlier updates; add "
      "--fp8-recipe delayed");
  accept(
      {"--bf16",
       "--fp8-format",
       "hybrid",
       "--fp8-recipe",
       "delayed",
       "--fp8-amax-history-len",
       "16",
       "--fp8-amax-compute-algo",
       "max",
       "--fp8-margin",
       "1"});
}

TEST(Check, CudaGraphs) {
  EXPECT_EQ(
      error_of({"--cuda-graph-warmup-steps", "5"}),
      "--cuda-graph-warmup-steps: --cuda-graph-warmup-steps needs "
      "--cuda-graph-impl; add --cuda-graph-impl");
  accept({"--enable-cuda-graph", "--cuda-graph-warmup-steps", "5"});
}

TEST(Check, LengthAndSchedule) {
  EXPECT_EQ(
      error_of({"--train-iters", "10", "--train-samples", "10"}),
      "--train-iters: --train-iters and --train-samples exclude each other; "
      "give one of them");
  EXPECT_NE(
      error_of({"--lr-warmup-fraction", "0.1", "--lr-warmup-iters", "5"}),
      "");
  EXPECT_NE(error_of({"--train-samples", "10", "--lr-decay-iters", "5"}), "");
  EXPECT_NE(error_of({"--train-iters", "10", "--lr-decay-samples", "5"}), "");
  accept(
      {"--train-samples",
       "10",
       "--train-tokens",
       "100",
       "--lr-decay-tokens",
       "50",
       "--lr-warmup-tokens",
       "5"});
  EXPECT_EQ(
      error_of({"--lr", "1e-4", "--min-lr", "0.001"}),
      "--min-lr: 0.001 is above --lr 0.0001");
}

TEST(Check, Precision) {
  EXPECT_EQ(
      error_of({"--fp16", "--bf16"}),
      "--fp16: fp16 and bf16 exclude each other; drop this or --bf16");
}

TEST(Check, Choices) {
  EXPECT_NE(error_of({"--swiglu", "--openai-gelu"}), "");
  EXPECT_NE(error_of({"--group-query-attention"}), "");
  EXPECT_NE(
      error_of(
          {"--use-rotary-position-embeddings",
           "--position-embedding-type",
           "relative"}),
      "");
  accept(
      {"--use-rotary-position-embeddings",
       "--position-embedding-type",
       "rope"});
  EXPECT_NE(error_of({"--deepspeed-activation-checkpointing"}), "");
  EXPECT_NE(error_of({"--recompute-method", "uniform"}), "");
  accept({"--sequence-parallel"}); // as Megatron, without effect on one rank
  const Words ranks{"--tensor-model-parallel-size", "2", "--tp-comm-overlap"};
  EXPECT_EQ(
      error_of(ranks),
      "--tp-comm-overlap: --tp-comm-overlap needs --sequence-parallel; add "
      "--sequence-parallel");
  Words split = ranks;
  split.push_back("--sequence-parallel");
  accept(split);
  split.insert(split.end(), {"--bf16", "--fp8-format", "hybrid"});
  EXPECT_NE(
      error_of(split).find("take their unit from all tokens"),
      Words::value_type::npos);
  EXPECT_NE(error_of({"--top_k", "3", "--top_p", "0.5"}), "");
  EXPECT_NE(error_of({"--greedy", "--top_k", "3"}), "");
  EXPECT_NE(error_of({"--start-weight-decay", "0.1"}), "");
  EXPECT_NE(
      error_of(
          {"--weight-decay-incr-style",
           "linear",
           "--start-weight-decay",
           "0.1"}),
      "");
  EXPECT_NE(error_of({"--save-interval", "5"}), "");
}

TEST(Check, SmallLanguages) {
  EXPECT_EQ(
      error_of({"--split", "90;10"}),
      "--split: \"90;10\" are no shares; write up to three numbers, such as "
      "969,30,1");
  EXPECT_NE(error_of({"--split", "1,1,1,1"}), "");
  EXPECT_NE(error_of({"--split", "0,0,0"}), "");
  EXPECT_NE(error_of({"--split", "1,-1"}), "");
  accept({"--split", "1"});
  accept({"--profile-steps", "2-4", "7,9", "12"});
  EXPECT_EQ(
      error_of({"--profile-steps", "4-2"}),
      "--profile-steps: \"4-2\" are no steps; write 2-4, or 2,4");
}

} // namespace
} // namespace cairn::config::check_test
