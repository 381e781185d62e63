#include "engine/parity.h"
#include "engine/training_run.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <cairn/engine/gathered_parameters.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

// Shards within groups of ranks, second copies of parameters, weights and
// gradients in small integers: policies of one pipeline, on four ranks.

namespace cairn::zero_groups_test {
namespace {

using testing::Curve;
using testing::expect_close;
using testing::expect_equal;
using testing::json;
using testing::OddMlp;
using testing::stage;
using testing::start_run;
using testing::TinyGpt;
using testing::trained;
using testing::TrainingRun;

constexpr int ranks = 4;

json with(int number, const json& keys) {
  json changes = stage(number);
  changes["zero_optimization"].update(keys);
  return changes;
}

const json mics{{"mics_shard_size", 2}};
const json hpz{{"zero_hpz_partition_size", 2}};
const json weights{{"zero_quantized_weights", true}};
const json gradients{{"zero_quantized_gradients", true}};
const json all_of_it{
    {"zero_hpz_partition_size", 2},
    {"zero_quantized_weights", true},
    {"zero_quantized_nontrainable_weights", true},
    {"zero_quantized_gradients", true}};

double farthest(
    const std::vector<double>& got,
    const std::vector<double>& wanted) {
  double most = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    most = std::max(most, std::abs(got[i] - wanted[i]));
  }
  return most;
}

/// Sums are taken in another order; nothing else differs.
TEST(ZeroGroups, ShardsWithinGroupsTrainTheSame) {
  testing::run_ranks({.ranks = ranks}, [](const distributed::World& world) {
    for (const int number : {1, 2, 3}) {
      SCOPED_TRACE("stage " + std::to_string(number));
      const Curve wanted = trained<TinyGpt>(world, stage(number), 2);
      expect_close(
          trained<TinyGpt>(world, with(number, mics), 2),
          wanted,
          1e-6);
    }
    // The net has unused, shared and frozen parameters, and an optimizer that
    // looks at whole ones.
    json plain = stage(3);
    plain["optimizer"] = {{"type", "Lamb"}, {"params", {{"lr", 1e-2}}}};
    json grouped = plain;
    grouped["zero_optimization"].update(mics);
    expect_close(
        trained<OddMlp>(world, grouped, 1),
        trained<OddMlp>(world, plain, 1),
        1e-6);
  });
}

/// Ranks behave as if there were two nodes of two ranks each.
TEST(ZeroGroups, GathersInTwoHopsChangeNoBit) {
  testing::run_processes(
      {.ranks = ranks},
      [](distributed::InitOptions options) {
        options.environment.local_world_size = 2;
        const distributed::World world = distributed::init_distributed(options);
        for (const bool packed : {false, true}) {
          json plain = with(3, {{"mics_shard_size", ranks}});
          plain["zero_optimization"]["zero_quantized_weights"] = packed;
          json hops = plain;
          hops["zero_optimization"]["mics_hierarchical_params_gather"] = true;
          expect_equal(
              trained<TinyGpt>(world, hops, 2),
              trained<TinyGpt>(world, plain, 2));
        }
        const auto traffic = world.traffic();
        EXPECT_TRUE(std::ranges::any_of(traffic, [](const auto& part) {
          return part.group.starts_with("zero outer") &&
              part.operation == "all_gather" && part.bytes > 0;
        }));
      });
}

/// Gradients that come late have a round of their own, over all copies.
TEST(ZeroGroups, LateGradientsReachAllCopies) {
  testing::run_ranks({.ranks = ranks}, [](const distributed::World& world) {
    for (const int number : {1, 2}) {
      expect_close(
          trained<testing::BranchingMlp>(world, with(number, mics), 2),
          trained<testing::BranchingMlp>(world, stage(number), 2),
          1e-6);
    }
  });
}

TEST(ZeroGroups, SecondCopiesChangeNoBit) {
  testing::run_ranks({.ranks = ranks}, [](const distributed::World& world) {
    for (const bool bf16 : {false, true}) {
      json plain = stage(3);
      plain["bf16"]["enabled"] = bf16;
      const Curve wanted = trained<TinyGpt>(world, plain, 2);
      for (const int size : {2, ranks}) {
        json changes = plain;
        changes["zero_optimization"]["zero_hpz_partition_size"] = size;
        expect_equal(trained<TinyGpt>(world, changes, 2), wanted);
      }
    }
    // Parameters fetched for a branch that is not taken are no copy to keep.
    expect_equal(
        trained<testing::BranchingMlp>(world, with(3, hpz), 2),
        trained<testing::BranchingMlp>(world, stage(3), 2));
  });
}

TEST(ZeroGroups, SmallIntegersStayNear) {
  testing::run_ranks({.ranks = ranks}, [](const distributed::World& world) {
    const auto curve = [&](int number, const json& keys) {
      return start_run(world, number, with(number, keys)).curve(15);
    };
    const auto wanted = curve(3, json::object());
    EXPECT_LT(wanted.back(), wanted.front() - 0.5);
    EXPECT_LT(farthest(curve(3, weights), wanted), 0.01);
    for (const int number : {1, 2, 3}) {
      EXPECT_LT(farthest(curve(number, gradients), wanted), 0.05) << number;
    }
    EXPECT_LT(farthest(curve(3, all_of_it), wanted), 0.05);
  });
}

/// The second copy rests as it travels: the values are the same from any rank.
TEST(ZeroGroups, SecondCopiesOfSmallIntegersChangeNoBit) {
  testing::run_ranks({.ranks = ranks}, [](const distributed::World& world) {
    json both = weights;
    both.update(hpz);
    expect_equal(
        trained<TinyGpt>(world, with(3, both), 2),
        trained<TinyGpt>(world, with(3, weights), 2));
  });
}

/// A look at a parameter shows the optimizer's value, and training does not
/// notice the look.
TEST(ZeroGroups, LookingIsExact) {
  testing::run_ranks({.ranks = ranks}, [](const distributed::World& world) {
    json changes = with(3, all_of_it);
    changes["zero_optimization"].erase("zero_quantized_nontrainable_weights");
    const auto losses = [&](bool looks) {
      TrainingRun run = start_run(world, 3, changes);
      std::vector<double> curve;
      for (int i = 0; i < 3; ++i) {
        curve.push_back(run.step());
        if (!looks) {
          continue;
        }
        const at::Tensor seen = run.engine().full_parameter("head.weight");
        run.engine().visit_weights([&](const auto& slice) {
          if (slice.name == "head.weight") {
            EXPECT_TRUE(at::equal(
                seen.view({-1}).narrow(0, slice.begin, slice.values.numel()),
                slice.values));
          }
        });
      }
      return curve;
    };
    EXPECT_EQ(losses(true), losses(false));
  });
}

TEST(ZeroGroups, ChangesByHandReachEveryCopy) {
  testing::run_ranks({.ranks = ranks}, [](const distributed::World& world) {
    for (const json& keys : {mics, hpz, all_of_it}) {
      SCOPED_TRACE(keys.dump());
      TrainingRun run = start_run(world, 3, with(3, keys));
      run.step();
      {
        const zero::GatheredParameters whole(
            run.engine(),
            {"head.weight", "frozen.weight"},
            {.modifier_rank = ranks - 1});
        const torch::NoGradGuard no_grad;
        run.net->head->weight.fill_(world.rank() == ranks - 1 ? 0.5 : 7);
        run.net->frozen->weight.fill_(world.rank() == ranks - 1 ? 0.25 : 7);
      }
      const at::Tensor head = run.engine().full_parameter("head.weight");
      EXPECT_TRUE(at::equal(head, at::full_like(head, 0.5)));
      const at::Tensor frozen = run.engine().full_parameter("frozen.weight");
      EXPECT_TRUE(at::equal(frozen, at::full_like(frozen, 0.25)));
      run.step();
    }
  });
}

/// A checkpoint depends on none of this.
TEST(ZeroGroups, CheckpointsLoadUnderAnyOther) {
  const testing::TemporaryFolder folder;
  struct Way {
    int stage;
    json keys;
    double tolerance;
  };
  const std::vector<Way> ways{
      {3, json::object(), 1e-5},
      {1, mics, 1e-5},
      {3, mics, 1e-5},
      {3, hpz, 1e-5},
      {3, all_of_it, 0.05}};
  testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
    std::vector<std::vector<double>> curves;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      TrainingRun run =
          start_run(world, ways[i].stage, with(ways[i].stage, ways[i].keys));
      run.curve(2);
      run.engine().save_checkpoint(folder.path(), std::to_string(i));
      curves.push_back(run.curve(2));
    }
    for (std::size_t from = 0; from < ways.size(); ++from) {
      for (std::size_t to = 0; to < ways.size(); ++to) {
        SCOPED_TRACE(::testing::Message() << from << " to " << to);
        TrainingRun run = start_run(
            world,
            ways[to].stage,
            with(ways[to].stage, ways[to].keys));
        run.engine().load_checkpoint(folder.path(), std::to_string(from));
        const auto got = run.curve(2);
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_NEAR(
              got[i],
              curves[from][i],
              std::max(ways[from].tolerance, ways[to].tolerance));
        }
      }
    }
  });
}

} // namespace
} // namespace cairn::zero_groups_test
