#include "engine/init_training.h"
#include "nn/counting_allocator.h"
#include "support/run_ranks.h"

#include <cairn/base/error.h>
#include <cairn/zero/init.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <stdexcept>

namespace cairn::init_test {
namespace {

using init_training::born;
using init_training::ExpertNet;
using init_training::few;
using init_training::Restless;
using init_training::whole_bytes;
using testing::json;
using testing::OddMlp;
using testing::TinyGpt;

template <typename Net>
void same_as_without(int ranks, const json& changes) {
  testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
    init_training::trains_the_same<Net>(world, changes, testing::expect_equal);
  });
}

TEST(Init, GptTrainsTheSame) {
  same_as_without<TinyGpt>(2, testing::stage(3));
  same_as_without<TinyGpt>(4, testing::stage(3));
}
TEST(Init, OddMlpTrainsTheSame) {
  same_as_without<OddMlp>(2, testing::stage(3));
  same_as_without<OddMlp>(3, testing::stage(3));
}
TEST(Init, RestlessTrainsTheSame) {
  same_as_without<Restless>(2, testing::stage(3));
}
TEST(Init, OneRankTrainsTheSame) {
  same_as_without<TinyGpt>(1, testing::stage(3));
}
TEST(Init, EveryStageTrainsTheSame) {
  for (const int number : {0, 1, 2}) {
    same_as_without<TinyGpt>(2, testing::stage(number));
  }
}
TEST(Init, SixteenBitsTrainTheSame) {
  for (const char* type : {"bf16", "fp16"}) {
    json changes = testing::stage(3);
    changes[type]["enabled"] = true;
    same_as_without<OddMlp>(2, changes);
  }
}

TEST(Init, FirstRanksValuesCount) {
  testing::run_ranks({.ranks = 3}, init_training::first_ranks_values_count);
}

TEST(Init, ExpertsTrainTheSame) {
  for (const int expert : {2, 4}) {
    testing::run_ranks({.ranks = 4}, [&](const distributed::World& world) {
      init_training::experts_train_the_same(
          world,
          expert,
          testing::expect_equal);
    });
  }
}

TEST(Init, ExpertsAreCutOverTheRanksThatHaveTheSame) {
  testing::run_ranks({.ranks = 4}, [](const distributed::World& world) {
    const distributed::ProcessMesh mesh(
        world.group(),
        {.data = 4, .expert = 2});
    torch::manual_seed(17);
    const ExpertNet wanted(mesh);
    std::shared_ptr<ExpertNet> net;
    {
      const zero::Init scope(
          {.world = world,
           .mesh = mesh,
           .dtype = at::kDouble, // other memory for all of them
           .max_live_parameters = 0});
      torch::manual_seed(17 + static_cast<std::uint64_t>(world.rank()));
      net = std::make_shared<ExpertNet>(mesh);
    }
    for (const auto& parameter : net->mixture->named_parameters()) {
      EXPECT_EQ(whole_bytes(parameter.value()), 0U) << parameter.key();
      EXPECT_TRUE(at::equal(
          parameter.value(),
          wanted.mixture->named_parameters()[parameter.key()].to(at::kDouble)))
          << parameter.key();
    }
  });
}

TEST(Init, ComesBackWhenUsed) {
  testing::run_ranks({.ranks = 2}, init_training::comes_back_when_used);
}

TEST(Init, RestsInAnotherType) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    const auto wanted = testing::fresh<OddMlp>();
    const auto net = born<OddMlp>(
        world,
        {.dtype = at::kBFloat16, .max_live_parameters = 1 << 20});
    for (const auto& parameter : net->named_parameters()) {
      EXPECT_EQ(parameter.value().scalar_type(), at::kBFloat16)
          << parameter.key();
      EXPECT_TRUE(at::equal(
          parameter.value(),
          wanted->named_parameters()[parameter.key()].to(at::kBFloat16)))
          << parameter.key();
    }
    json changes = testing::stage(3);
    changes["bf16"]["enabled"] = true;
    const auto half = [&] {
      return born<OddMlp>(
          world,
          {.dtype = at::kBFloat16, .max_live_parameters = 1 << 20});
    };
    expect_equal(
        testing::trained<OddMlp>(world, changes, 1, {}, half),
        testing::trained<OddMlp>(world, changes, 1));
  });
}

TEST(Init, LeavesNothingBehind) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    testing::CountingAllocator counter;
    {
      const auto net = born<Restless>(world);
      EXPECT_GT(counter.live(), 0U);
      at::matmul(net->gain, net->gain);
    }
    EXPECT_EQ(counter.live(), 0U);
    EXPECT_TRUE(at::equal(at::ones({3}), at::ones({3})));
  });
}

TEST(Init, SaysWhatIsWrong) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    {
      const zero::Init scope({.world = world});
      EXPECT_THROW(const zero::Init inner({.world = world}), UsageError);
    }
    EXPECT_THROW(
        const zero::Init inner({.world = world, .dtype = at::kLong}),
        UsageError);
    const zero::Init off({.world = world, .enabled = false});
    const zero::Init another({.world = world, .enabled = false});
  });
}

TEST(Init, LeftByAnException) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    const auto fail = [&] {
      const zero::Init scope({.world = world, .max_live_parameters = few});
      const auto net = testing::fresh<TinyGpt>();
      throw std::runtime_error("mine");
    };
    EXPECT_THROW(fail(), std::runtime_error);
    EXPECT_TRUE(at::ones({3}, at::requires_grad()).storage().nbytes() > 0);
  });
}

TEST(Init, SaysThatARankIsGone) {
  testing::run_ranks(
      {.ranks = 2, .notes_grace = std::chrono::milliseconds(300), .dies = {1}},
      [](const distributed::World& world) {
        std::shared_ptr<TinyGpt> net;
        const auto build = [&] {
          const zero::Init scope({.world = world, .max_live_parameters = few});
          if (world.rank() == 1) {
            std::raise(SIGKILL);
          }
          net = testing::fresh<TinyGpt>();
        };
        EXPECT_THROW(build(), CommError);
      });
}

} // namespace
} // namespace cairn::init_test
