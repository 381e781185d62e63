#include "engine/init_training.h"
#include "support/run_ranks.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

// zero::Init between ranks that share a GPU: parameters are made on the CPU and
// sent over NCCL.

namespace cairn::init_gpu_test {
namespace {

using testing::Curve;
using testing::json;
using testing::OddMlp;
using testing::TinyGpt;

/// A GPU adds up in an order of its own.
void expect_near(const Curve& got, const Curve& wanted) {
  testing::expect_close(got, wanted, 1e-4);
}

void on_one_gpu(const std::function<void(const distributed::World&)>& body) {
  testing::run_ranks(
      testing::ranks_on_one_gpu(2),
      [&](const distributed::World& world) {
        ASSERT_EQ(world.group().backend(), "nccl");
        body(world);
      });
}

TEST(InitNccl, TrainsTheSame) {
  on_one_gpu([](const distributed::World& world) {
    const json three = testing::stage(3);
    init_training::trains_the_same<TinyGpt>(world, three, expect_near);
    init_training::trains_the_same<OddMlp>(world, three, expect_near);
    init_training::trains_the_same<init_training::Restless>(
        world,
        three,
        expect_near);
  });
}

TEST(InitNccl, EveryStageTrainsTheSame) {
  on_one_gpu([](const distributed::World& world) {
    for (const int number : {0, 1, 2}) {
      SCOPED_TRACE("stage " + std::to_string(number));
      init_training::trains_the_same<TinyGpt>(
          world,
          testing::stage(number),
          expect_near);
    }
  });
}

TEST(InitNccl, ExpertsTrainTheSame) {
  on_one_gpu([](const distributed::World& world) {
    init_training::experts_train_the_same(world, 2, expect_near);
  });
}

TEST(InitNccl, FirstRanksValuesCount) {
  on_one_gpu(init_training::first_ranks_values_count);
}

TEST(InitNccl, ComesBackWhenUsed) {
  on_one_gpu(init_training::comes_back_when_used);
}

} // namespace
} // namespace cairn::init_gpu_test
