// The estimate of one layout: memory, time, and what it refuses.

#include "plan/internal/constants.h"
#include "plan/trainings.h"

#include <cairn/base/error.h>
#include <cairn/model/presets.h>
#include <cairn/plan/estimate.h>

#include "support/command.h"
#include "support/docs_blocks.h"
#include "support/error_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::plan {
namespace {

using ::testing::HasSubstr;

Training billion_7() {
  return gpt(36, 4096, 32);
}

RunLayout data_parallel(std::int64_t gpus) {
  return {.gpus = gpus, .micro_batch = 1, .global_batch = 4 * gpus};
}

TEST(PlanEstimate, StagesShareStatesAsZerosPaperSays) {
  // 7.5B, 64 ranks: 120, 31.4, 16.6 and 1.9 GB with 2 + 2 + 12 bytes.
  Training training = billion_7();
  training.states = {.parameter = 2, .gradient = 2, .master = 4, .moments = 8};
  RunLayout layout = data_parallel(64);
  const double psi = estimate(training, layout, selene()).parameters;
  EXPECT_NEAR(psi, 7.5e9, 0.1e9);
  const double expected[] = {
      16 * psi,
      4 * psi + 12 * psi / 64,
      2 * psi + 14 * psi / 64,
      16 * psi / 64};
  for (int stage = 0; stage <= 3; ++stage) {
    layout.zero_stage = stage;
    const MemoryParts memory = estimate(training, layout, selene()).memory;
    const double states = memory.parameters + memory.gradients +
        memory.master_weights + memory.optimizer;
    EXPECT_NEAR(states / expected[stage], 1, 0.01) << "stage " << stage;
  }
}

TEST(PlanEstimate, PartsAddUp) {
  const Training training = gpt(96, 12288, 96);
  const RunLayout layout{
      .gpus = 1024,
      .tensor = 8,
      .pipeline = 16,
      .zero_stage = 1,
      .micro_batch = 1,
      .global_batch = 1536,
      .recompute = Recompute::blocks};
  const Estimate each = estimate(training, layout, selene());
  EXPECT_NEAR(each.parameters, 174.6e9, 0.2e9);
  EXPECT_NEAR(each.time.total() / each.iteration_seconds, 1, 0.02);
  EXPECT_NEAR(
      each.hardware_tflops_per_gpu / each.model_tflops_per_gpu,
      4.0 / 3,
      0.01);
  EXPECT_GT(each.time.bubble, 0);
  EXPECT_TRUE(each.fits);
}

TEST(PlanEstimate, CountsOperationsAsMegatronsPaperDoes) {
  // 96 B s l h^2 (1 + s / 6h + V / 16 l h)
  const Training training = billion_7();
  RunLayout layout = data_parallel(8);
  layout.recompute = Recompute::blocks;
  const Estimate each = estimate(training, layout, selene());
  const double h = 4096;
  const double l = 36;
  const double s = 2048;
  const double operations =
      96 * 32 * s * l * h * h * (1 + s / (6 * h) + 51200 / (16 * l * h));
  EXPECT_NEAR(
      each.hardware_tflops_per_gpu * 1e12 * each.iteration_seconds * 8 /
          operations,
      1,
      0.02);
}

TEST(PlanEstimate, MoreOfAnythingTakesMoreOfIt) {
  const Training training = billion_7();
  RunLayout layout = data_parallel(8);
  layout.zero_stage = 3;
  const Estimate base = estimate(training, layout, selene());
  RunLayout larger = layout;
  larger.micro_batch = 4;
  const Estimate wide = estimate(training, larger, selene());
  EXPECT_GT(wide.memory.activations, 3.9 * base.memory.activations);
  EXPECT_LT(wide.time.gathers, base.time.gathers); // fewer micro batches
  RunLayout again = layout;
  again.recompute = Recompute::blocks;
  const Estimate slower = estimate(training, again, selene());
  EXPECT_LT(slower.memory.activations, base.memory.activations / 5);
  EXPECT_GT(slower.iteration_seconds, 1.15 * base.iteration_seconds);
  Cluster slow = selene();
  slow.levels[0].bandwidth /= 100;
  EXPECT_GT(
      estimate(training, layout, slow).iteration_seconds,
      1.5 * base.iteration_seconds);
}

TEST(PlanEstimate, OffloadingMovesStatesToTheHost) {
  const Training training = billion_7();
  const Cluster machine = find_cluster("h200");
  RunLayout layout = data_parallel(1);
  layout.zero_stage = 2;
  const Estimate on_gpu = estimate(training, layout, machine);
  layout.optimizer = Place::cpu;
  const Estimate on_host = estimate(training, layout, machine);
  EXPECT_EQ(on_host.memory.optimizer, 0);
  EXPECT_EQ(on_host.memory.master_weights, 0);
  EXPECT_GE(
      on_host.host_bytes,
      on_gpu.memory.optimizer + on_gpu.memory.master_weights);
  EXPECT_GT(on_host.time.offload, 0);
  EXPECT_GT(on_host.iteration_seconds, on_gpu.iteration_seconds);
}

TEST(PlanEstimate, T5HasTwoStacksAndAttentionBetweenThem) {
  const auto t5 = [](std::int64_t decoder) {
    return Training{
        .model = model::with_padding(model::t5_description(
            {.layers = 12,
             .hidden = 1024,
             .heads = 16,
             .sequence = 512,
             .vocabulary = 32128,
             .padded_vocabulary = 32128})),
        .sequence = 512,
        .decoder_sequence = decoder};
  };
  const RunLayout layout{.gpus = 1, .micro_batch = 8, .global_batch = 8};
  const Cluster machine = find_cluster("h200");
  const Estimate each = estimate(t5(128), layout, machine);
  // A word embedding, two of positions' rows, and 12 h^2 or 16 h^2 a layer.
  const double h2 = 1024.0 * 1024;
  EXPECT_NEAR(each.parameters / (32128 * 1024 + 12 * 28 * h2), 1, 0.01);
  EXPECT_NEAR(each.memory.parameters / (2 * each.parameters), 1, 0.01)
      << "what stacks share is there once";
  const double tokens = 8 * (512 + 128);
  EXPECT_NEAR(
      each.tokens_per_second_per_gpu * each.iteration_seconds / tokens,
      1,
      1e-9);
  const Estimate longer = estimate(t5(512), layout, machine);
  EXPECT_GT(longer.time.products, 1.5 * each.time.products);
  EXPECT_GT(longer.memory.activations, 1.5 * each.memory.activations);
  EXPECT_THROW(estimate(t5(0), layout, machine), ConfigError);
}

TEST(PlanEstimate, ValuesOf32BitsTakeTwiceTheMemoryAndTheirOwnSpeed) {
  Training training = gpt(24, 2048, 16);
  const RunLayout layout{
      .gpus = 8,
      .zero_stage = 1,
      .micro_batch = 2,
      .global_batch = 16};
  const Cluster machine = find_cluster("dgx-h100");
  const Estimate narrow = estimate(training, layout, machine);
  training.value_bytes = 4;
  training.states = {.parameter = 4, .gradient = 4, .master = 0};
  const Estimate wide = estimate(training, layout, machine);
  EXPECT_NEAR(wide.memory.activations / narrow.memory.activations, 2, 0.01);
  EXPECT_NEAR(wide.memory.parameters / narrow.memory.parameters, 2, 0.01);
  EXPECT_EQ(wide.memory.master_weights, 0);
  EXPECT_GT(wide.time.products, 8 * narrow.time.products) << "989 and 67";
  Cluster unknown = machine;
  unknown.gpu.flops_32bit = 0;
  EXPECT_THROW(estimate(training, layout, unknown), ConfigError);
}

/// A GPU whose products and attention were measured.
Cluster measured_gpu() {
  return find_cluster("h200");
}

TEST(PlanEstimate, ALongRunKeepsAPartOfTheSpeedsThatWereMeasured) {
  Cluster machine = measured_gpu();
  machine.gpu.measured.sustained = 1;
  const RunLayout layout = data_parallel(1);
  const Estimate burst = estimate(billion_7(), layout, machine);
  machine.gpu.measured.sustained = 0.5;
  const Estimate long_run = estimate(billion_7(), layout, machine);
  EXPECT_NEAR(long_run.time.products / burst.time.products, 2, 0.01);
  EXPECT_NEAR(long_run.time.attention / burst.time.attention, 2, 1e-9);
  EXPECT_EQ(long_run.time.elementwise, burst.time.elementwise);
  EXPECT_EQ(long_run.time.optimizer, burst.time.optimizer);
}

TEST(PlanEstimate, MeasuredPassesAreThoseOfCairnAlone) {
  const auto elementwise = [](bool is_cairn, double passes) {
    Cluster machine = measured_gpu();
    machine.gpu.measured.passes = passes;
    Training training = billion_7();
    training.program.is_cairn = is_cairn;
    return estimate(training, data_parallel(1), machine).time.elementwise;
  };
  EXPECT_GT(elementwise(true, 2), 1.5 * elementwise(true, 1));
  EXPECT_EQ(elementwise(false, 2), elementwise(false, 1));
}

TEST(PlanEstimate, AttentionThatAddsPositionsToScoresHasAKernelOfItsOwn) {
  Training training = billion_7();
  const RunLayout layout = data_parallel(1);
  for (const char* cluster : {"h200", "dgx-h100"}) {
    const Cluster machine = find_cluster(cluster);
    training.model.position = model::PositionKind::learned;
    const double plain = estimate(training, layout, machine).time.attention;
    training.model.position = model::PositionKind::relative;
    training.model.relative_buckets = 32;
    EXPECT_NEAR(
        plain / estimate(training, layout, machine).time.attention,
        Constants{}.placed_share,
        1e-9);
  }
}

TEST(PlanEstimate, ADiskSharesWhatItMovesBetweenBothWays) {
  Cluster machine = measured_gpu();
  machine.host.nvme_read = 3e9;
  machine.host.nvme_write = 2e9;
  RunLayout layout = data_parallel(1);
  layout.optimizer = Place::nvme;
  layout.update_on_gpu = true;
  const auto seconds = [&](double both) {
    machine.host.nvme_both = both;
    return estimate(billion_7(), layout, machine).time.offload;
  };
  const double alone = seconds(0);
  EXPECT_EQ(seconds(4e9), alone) << "writing takes as long";
  EXPECT_NEAR(seconds(2e9), 2 * alone, 1e-6 * alone);
}

TEST(PlanEstimate, SaysWhatIsLacking) {
  const Estimate each =
      estimate(gpt(96, 12288, 96), data_parallel(8), selene());
  EXPECT_FALSE(each.fits);
  EXPECT_THAT(each.lacks, HasSubstr("a GPU needs"));
  EXPECT_EQ(each.limited_by, "memory");
}

TEST(PlanEstimate, RefusesImpossibleLayouts) {
  const auto refused = [](RunLayout layout) {
    try {
      estimate(billion_7(), layout, selene());
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  RunLayout layout = data_parallel(8);
  layout.tensor = 3;
  EXPECT_THAT(refused(layout), HasSubstr("8 ranks, 3 tensor"));
  layout = data_parallel(8);
  layout.global_batch = 12;
  EXPECT_THAT(refused(layout), HasSubstr("global batch 12"));
  layout = {.gpus = 64, .pipeline = 64, .global_batch = 64};
  EXPECT_NE(refused(layout), "");
  layout = data_parallel(8);
  layout.zero_stage = 4;
  EXPECT_NE(refused(layout), "");
  layout = data_parallel(8);
  layout.micro_batch = 0;
  EXPECT_NE(refused(layout), "");
  layout = data_parallel(8);
  layout.recomputed_together = 0;
  EXPECT_NE(refused(layout), "");
}

TEST(PlanEstimate, TheTimelineHasEveryPass) {
  const RunLayout layout{
      .gpus = 4,
      .pipeline = 4,
      .schedule = "interleaved",
      .chunks = 3,
      .micro_batch = 1,
      .global_batch = 8};
  const Estimate each =
      estimate(billion_7(), layout, selene(), {.timeline = true});
  ASSERT_EQ(each.timeline.size(), 4U);
  for (const auto& stage : each.timeline) {
    EXPECT_EQ(stage.size(), 2U * 8 * 3);
    for (std::size_t i = 1; i < stage.size(); ++i) {
      EXPECT_GE(stage[i].begin, stage[i - 1].end);
    }
  }
}

TEST(PlanEstimate, OfTheDocsExampleIsWhatThePageShows) {
  // clang-format off
const auto model = cairn::model::gpt_description({.layers = 24, .hidden = 2048, .heads = 16, .sequence = 2048});
const auto estimate = cairn::plan::estimate(
    {.model = cairn::model::with_padding(model), .sequence = 2048},
    {.gpus = 8, .zero_stage = 2, .micro_batch = 4, .global_batch = 256},
    cairn::plan::find_cluster("dgx-h100"));
  // clang-format on
  EXPECT_TRUE(estimate.fits);
  EXPECT_NEAR(estimate.parameters, 1.3e9, 0.1e9);
  const auto blocks =
      cairn::testing::blocks_of(CAIRN_SOURCE_DIR "/docs/planning.md", "cpp");
  ASSERT_EQ(blocks.size(), 1U);
  const std::string& page = blocks.front();
  const auto code = page.find("const auto model");
  ASSERT_NE(code, std::string::npos);
  EXPECT_THAT(
      cairn::testing::read_text(__FILE__),
      HasSubstr(page.substr(code, page.find("// estimate.") - code)));
}

TEST(PlanEstimate, OfThisMachineIsInTheTypesOfTheTraining) {
  Training training = gpt(2, 256, 4);
  const RunLayout layout{.gpus = 2, .micro_batch = 1, .global_batch = 2};
  const Cluster cpu = cpu_machine(2);
  EXPECT_GT(cpu.gpu.memory_bytes, 0);
  EXPECT_DOUBLE_EQ(cpu.gpu.memory_bytes, cpu_machine(1).gpu.memory_bytes / 2)
      << "ranks share it";
  const Estimate half = estimate(training, layout, cpu);
  training.value_bytes = 4;
  const Estimate full = estimate(training, layout, cpu);
  // Statistics of norms and softmax are in fp32 in any case.
  EXPECT_NEAR(full.memory.activations / half.memory.activations, 2, 0.01);

  auto gpus = gpu_machine("NVIDIA A100-SXM4-80GB");
  ASSERT_TRUE(gpus);
  EXPECT_EQ(gpus->gpu.name, "A100-80GB");
  EXPECT_FALSE(gpu_machine("NVIDIA T4"));
  EXPECT_EQ(
      gpu_machine_here("NVIDIA A100-SXM4-80GB")->host.memory_bytes,
      cpu.host.memory_bytes);
  gpus->gpu.flops_32bit = 0;
  EXPECT_THAT(
      cairn::error_text([&] { estimate(training, layout, *gpus); }),
      HasSubstr("does not say how fast its GPUs compute in fp32"));
}

TEST(PlanEstimate, FollowsTheCutThatIsAskedFor) {
  const Training training = gpt(4, 1024, 8);
  RunLayout layout{
      .gpus = 2,
      .pipeline = 2,
      .micro_batch = 1,
      .global_batch = 4};
  const Estimate own = estimate(training, layout, selene());
  // The embedding and one of four blocks come first.
  layout.cuts = {0, 2, 8};
  const Estimate cut = estimate(training, layout, selene());
  EXPECT_LT(own.iteration_seconds, cut.iteration_seconds);
  EXPECT_EQ(cut.heaviest_stage, 1);
  layout.cuts = {0, 2, 9};
  EXPECT_THAT(
      cairn::error_text([&] { estimate(training, layout, selene()); }),
      HasSubstr("8 layers, 2 parts"));
}

} // namespace
} // namespace cairn::plan
