#include "engine/nets.h"
#include "nn/counting_allocator.h"
#include "support/run_ranks.h"

#include <ATen/Functions.h>
#include <cairn/engine/initialize.h>
#include <cairn/zero/init.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <memory>

namespace cairn::init_memory_test {
namespace {

using nlohmann::json;

struct Deep : testing::TanhStack {
  static constexpr int depth = 24;
  static constexpr std::int64_t width = 128;
  static constexpr std::size_t layer_bytes = (width * width + width) * 4;
  static constexpr std::size_t bytes = depth * layer_bytes;

  Deep() : TanhStack(depth, width) {}
};

/// A model of 24 layers, two of which may be live: no rank ever has more than
/// its part and a few layers, until training has begun.
void stays_small(int ranks) {
  testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
    testing::CountingAllocator counter;
    const std::size_t part = Deep::bytes / static_cast<std::size_t>(ranks);
    std::shared_ptr<Deep> net;
    {
      const zero::Init scope(
          {.world = world,
           .max_live_parameters = 2 * Deep::width * Deep::width});
      net = std::make_shared<Deep>();
    }
    EXPECT_LT(counter.peak(), part + 3 * Deep::layer_bytes);
    EXPECT_NEAR(
        static_cast<double>(counter.live()),
        static_cast<double>(part),
        0.02 * static_cast<double>(part));

    counter.reset_peak();
    const json config{
        {"train_micro_batch_size_per_gpu", 1},
        {"optimizer", {{"type", "SGD"}, {"params", {{"lr", 0.1}}}}},
        {"zero_optimization",
         {{"stage", 3},
          {"reduce_bucket_size", Deep::width * Deep::width},
          {"stage3_param_persistence_threshold", 0},
          {"stage3_max_live_parameters", 2 * Deep::width * Deep::width},
          {"stage3_max_reuse_distance", 0}}}};
    auto [engine, optimizer, loader, schedule] = initialize(
        {.model = net,
         .config = config.dump(),
         .world = world,
         .logger = Logger({.least = LogLevel::error})});
    EXPECT_LT(counter.peak(), part + 3 * Deep::layer_bytes);
    EXPECT_LT(counter.live(), part + Deep::layer_bytes);
    engine.backward(engine(at::ones({1, Deep::width})).mean());
    engine.step();
    EXPECT_LT(counter.peak(), 2 * part + 8 * Deep::layer_bytes); // gradients
  });
}

TEST(Init, StaysSmallOnTwoRanks) {
  stays_small(2);
}
TEST(Init, StaysSmallOnFourRanks) {
  stays_small(4);
}

} // namespace
} // namespace cairn::init_memory_test
