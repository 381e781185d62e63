// What-ifs: slower links, a slow GPU, failures and checkpoints, more GPUs.

#include "plan/internal/what_if.h"
#include "plan/internal/stage_choices.h"
#include "plan/trainings.h"

#include <cairn/base/error.h>

#include <gtest/gtest.h>

#include <cmath>

namespace cairn::plan {
namespace {

RunLayout pipelined() {
  return {
      .gpus = 64,
      .tensor = 2,
      .pipeline = 8,
      .zero_stage = 1,
      .micro_batch = 1,
      .global_batch = 128};
}

TEST(PlanWhatIf, SlowerLinksTakeTheirLevelsMessages) {
  const Training training = gpt(36, 4096, 32);
  const Estimate base = estimate(training, pipelined(), selene());
  const Estimate outside =
      estimate(training, pipelined(), with_links(selene(), "InfiniBand", 0.1));
  EXPECT_GT(outside.iteration_seconds, 1.05 * base.iteration_seconds);
  EXPECT_EQ(outside.time.tensor, base.time.tensor) << "they stay in the node";
  const Estimate inside =
      estimate(training, pipelined(), with_links(selene(), "NVSwitch", 0.1));
  EXPECT_GT(inside.time.tensor, 5 * base.time.tensor);
  EXPECT_THROW(with_links(selene(), "Ethernet", 0.5), ConfigError);
}

TEST(PlanWhatIf, ASlowGpuHoldsUpItsStageAndAllThatWaitForIt) {
  const Training training = gpt(36, 4096, 32);
  for (const std::int64_t pipeline : {1, 4}) {
    SCOPED_TRACE(pipeline);
    RunLayout layout = pipelined();
    layout.tensor = 1;
    layout.pipeline = pipeline;
    layout.recompute = Recompute::blocks;
    const Estimate base = estimate(training, layout, selene());
    const Estimate slow =
        estimate(training, layout, selene(), {.straggler = 1.5});
    const TimeParts& t = base.time;
    const double computed =
        t.products + t.attention + t.elementwise + t.recompute + t.host;
    EXPECT_NEAR(slow.time.straggler / (0.5 * computed), 1, 0.1);
    EXPECT_NEAR(slow.time.total() / slow.iteration_seconds, 1, 0.02);
    EXPECT_GT(slow.iteration_seconds, base.iteration_seconds + 0.4 * computed);
    EXPECT_LT(slow.iteration_seconds, 1.51 * base.iteration_seconds);
    EXPECT_EQ(base.time.straggler, 0);
  }
}

TEST(PlanWhatIf, ACheckpointOfATrillionParametersIsAsLargeAsPublished) {
  // Document 002's paper: 13.8 terabytes, saved at 273 GB/s from 384 nodes.
  const Training training = gpt(128, 25600, 160);
  const RunLayout layout{
      .gpus = 3072,
      .tensor = 8,
      .pipeline = 64,
      .zero_stage = 1,
      .micro_batch = 1,
      .global_batch = 3072,
      .recompute = Recompute::blocks};
  const Estimate each = estimate(training, layout, selene());
  const Goodput goodput =
      goodput_of(training, each, selene(), {.storage = 0.71e9, .interval = 10});
  EXPECT_NEAR(goodput.checkpoint_bytes / 13.8e12, 1, 0.03);
  EXPECT_NEAR(goodput.write_seconds, 13.8e12 / 273e9, 2);
  EXPECT_EQ(goodput.interval, 10);
  EXPECT_EQ(goodput.failure_seconds, 0);
  EXPECT_GT(goodput.share, 0.99) << "training waits for the copy alone";
}

TEST(PlanWhatIf, FailuresCostHalfAnIntervalAndARestart) {
  const Training training = gpt(36, 4096, 32);
  const Estimate each = estimate(training, pipelined(), selene());
  const auto at = [&](double mttf, std::int64_t interval) {
    return goodput_of(
        training,
        each,
        selene(),
        {.node_mttf = mttf,
         .storage = 1e9,
         .restart = 600,
         .interval = interval});
  };
  const Goodput often = at(8 * 36000, 100);
  EXPECT_DOUBLE_EQ(often.failure_seconds, 36000) << "of eight nodes";
  EXPECT_NEAR(
      often.lost_seconds,
      50 * each.iteration_seconds + 2 * often.write_seconds + 600,
      1e-6);
  const double stalls = often.stall_seconds / (100 * each.iteration_seconds);
  EXPECT_NEAR(
      often.share,
      1 / ((1 + stalls) * (1 + often.lost_seconds / 36000)),
      1e-12);
  EXPECT_LT(at(8 * 3600, 100).share, often.share);
  EXPECT_EQ(goodput_of(training, each, selene(), {}).share, 1);
  EXPECT_THROW(
      goodput_of(training, each, selene(), {.node_mttf = 1e6}),
      ConfigError);
}

TEST(PlanWhatIf, TheIntervalThatItChoosesIsTheBest) {
  const Training training = gpt(36, 4096, 32);
  Cluster slow_copies = selene();
  slow_copies.host.copy_bandwidth = 0.1e9; // so that stalls count
  const Estimate each = estimate(training, pipelined(), slow_copies);
  Reliability reliability{.node_mttf = 8 * 3600, .storage = 100e9};
  const Goodput best = goodput_of(training, each, slow_copies, reliability);
  ASSERT_GT(best.interval, 4);
  for (const double factor : {0.5, 2.0}) {
    reliability.interval =
        static_cast<std::int64_t>(factor * static_cast<double>(best.interval));
    EXPECT_LT(
        goodput_of(training, each, slow_copies, reliability).share,
        best.share);
  }
}

TEST(PlanWhatIf, StagesTradeTimeForLargerModels) {
  const Training training = gpt(36, 4096, 32);
  const RunLayout layout{.gpus = 64, .micro_batch = 1, .global_batch = 256};
  const auto choices = stage_choices(training, layout, selene());
  ASSERT_EQ(choices.size(), 10U);
  const StageChoice& ddp = choices[0];
  EXPECT_EQ(ddp.name, "ZeRO 0");
  // 18 bytes a parameter on a GPU of 85 GB: 4.7 billion, less what is not
  // states.
  EXPECT_GT(ddp.largest, 3.5e9);
  EXPECT_LT(ddp.largest, 4.7e9);
  EXPECT_FALSE(ddp.estimate->fits) << "7.5 billion";
  for (std::size_t stage = 1; stage <= 3; ++stage) {
    EXPECT_GT(choices[stage].largest, 1.5 * choices[stage - 1].largest);
    EXPECT_LT(
        choices[stage].estimate->memory.total(),
        choices[stage - 1].estimate->memory.total());
  }
  EXPECT_GT(
      choices[3].estimate->time.gathers,
      choices[1].estimate->time.gathers);
  EXPECT_GT(choices[4].largest, choices[2].largest) << "optimizer on the CPU";
  // The largest model fits, and one with a layer more does not.
  Training largest = training;
  const double layer = 12 * 4096.0 * 4096;
  largest.model.layers +=
      std::llround((ddp.largest - ddp.estimate->parameters) / layer);
  EXPECT_TRUE(estimate(largest, layout, selene()).fits);
  ++largest.model.layers;
  EXPECT_FALSE(estimate(largest, layout, selene()).fits);
}

TEST(PlanWhatIf, ADiskHasTheStatesThatTheHostHasNoRoomFor) {
  Training training = gpt(36, 4096, 32);
  training.states = {.parameter = 2, .gradient = 2, .master = 2, .moments = 4};
  const RunLayout layout{.gpus = 1, .micro_batch = 1, .global_batch = 1};
  const auto choice = [&](double host, double disk) {
    Cluster machine = find_cluster("h200");
    machine.host.memory_bytes = host / 0.93;
    machine.host.nvme_bytes = disk;
    return stage_choices(training, layout, machine)[5];
  };
  const StageChoice both = choice(20e9, 100e9);
  EXPECT_EQ(both.name, "ZeRO 1, optimizer on the CPU and NVMe");
  ASSERT_TRUE(both.estimate->fits) << both.estimate->lacks;
  const double states = 6 * both.estimate->parameters;
  EXPECT_NEAR(both.estimate->host_bytes, 20e9, 0.01 * states);
  EXPECT_NEAR(both.estimate->nvme_bytes, states - 20e9, 0.01 * states);
  EXPECT_NEAR(both.largest / (120e9 / 6), 1, 0.02);
  EXPECT_EQ(choice(100e9, 1e9).estimate->nvme_bytes, 0);
}

TEST(PlanWhatIf, ChoicesOfStagesDoNotDependOnWhatTheLayoutOffloads) {
  Training training = gpt(36, 4096, 32);
  training.states = {.parameter = 2, .gradient = 2, .master = 2, .moments = 4};
  Cluster machine = find_cluster("h200");
  machine.host.memory_bytes = 20e9 / 0.93;
  machine.host.nvme_bytes = 100e9;
  RunLayout layout{.gpus = 1, .micro_batch = 1, .global_batch = 1};
  const auto plain = stage_choices(training, layout, machine);
  layout.optimizer = Place::nvme;
  layout.offloaded = 0.5;
  layout.offloaded_to_host = 0.3; // the JSON's cpu_ratio
  const auto choices = stage_choices(training, layout, machine);
  ASSERT_EQ(choices.size(), plain.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    SCOPED_TRACE(choices[i].name);
    ASSERT_TRUE(choices[i].estimate && plain[i].estimate);
    const Estimate& each = *choices[i].estimate;
    EXPECT_EQ(each.host_bytes, plain[i].estimate->host_bytes);
    EXPECT_EQ(each.nvme_bytes, plain[i].estimate->nvme_bytes);
    EXPECT_EQ(each.time.offload, plain[i].estimate->time.offload);
    EXPECT_EQ(choices[i].largest, plain[i].largest);
  }
}

TEST(PlanWhatIf, CurvesGoToAsManyGpusAsAskedFor) {
  const Training training = gpt(36, 4096, 32);
  const auto points = scaling(training, pipelined(), selene(), 100'000);
  ASSERT_EQ(points.size(), 12U); // 64, 128, … 65536, and the last
  EXPECT_EQ(points.front().gpus, 64);
  EXPECT_EQ(points.back().gpus, 100'000 / 64 * 64);
  const auto speed = [](const std::optional<Estimate>& each) {
    return each->tokens_per_second_per_gpu *
        static_cast<double>(each->layout.gpus);
  };
  ASSERT_TRUE(points[0].strong && points[5].strong && points.back().weak);
  EXPECT_DOUBLE_EQ(speed(points[0].strong), speed(points[0].weak));
  EXPECT_EQ(points[5].strong->layout.global_batch, 128);
  EXPECT_GT(speed(points[5].weak), 2 * speed(points[5].strong))
      << "the same batch leaves a bubble and messages";
  EXPECT_LE(
      speed(points.back().weak),
      speed(points[0].weak) * static_cast<double>(points.back().gpus) / 64);
  EXPECT_FALSE(points.back().strong) << "128 samples for 12,496 ranks";
}

} // namespace
} // namespace cairn::plan
