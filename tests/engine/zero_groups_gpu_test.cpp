#include "engine/parity.h"
#include "support/run_ranks.h"
#include "zero/reduce/packed.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <chrono>
#include <limits>
#include <string>
#include <vector>

// Shards within groups of ranks, second copies and small integers, on ranks
// that share a GPU.

namespace cairn::zero_groups_gpu_test {
namespace {

using testing::Curve;
using testing::json;
using testing::TinyGpt;

/// A rank on a GPU and one without understand each other.
TEST(ZeroGroupsGpu, PacksTheCpusBits) {
  testing::run_ranks(
      {.ranks = 1, .backend = distributed::BackendChoice::automatic},
      [](const distributed::World& world) {
        const at::Device device(world.device_name());
        ASSERT_TRUE(device.is_cuda());
        torch::manual_seed(2);
        for (const zero::Wire wire : {zero::Wire::int8, zero::Wire::int4}) {
          for (const std::int64_t count : {64, 4096, 100'000 - 32}) {
            for (const at::ScalarType type :
                 {at::kFloat, at::kBFloat16, at::kHalf}) {
              SCOPED_TRACE(
                  ::testing::Message() << count << " " << c10::toString(type));
              at::Tensor values = (at::randn({count}) * 0.3).to(type);
              values.narrow(0, 0, 8).zero_();
              if (count > 1000) {
                values[900] = std::numeric_limits<float>::infinity();
                values.narrow(0, 512, 256).zero_();
              }
              const at::Tensor packed = zero::packed_of(values, wire);
              const at::Tensor there = zero::packed_of(values.to(device), wire);
              EXPECT_TRUE(at::equal(there.cpu(), packed));
              const at::Tensor back = at::empty_like(values);
              zero::unpack(packed, wire, back);
              const at::Tensor back_there =
                  at::empty(values.sizes(), values.options().device(device));
              zero::unpack(there, wire, back_there);
              EXPECT_TRUE(at::equal(
                  back_there.cpu().nan_to_num(7),
                  back.nan_to_num(7)));
              const at::Tensor sums = at::ones({count});
              const at::Tensor sums_there = at::ones({count}, device);
              zero::add_packed(packed, wire, sums);
              zero::add_packed(there, wire, sums_there);
              EXPECT_TRUE(at::equal(
                  sums_there.cpu().nan_to_num(7),
                  sums.nan_to_num(7)));
            }
          }
        }
      });
}

struct Way {
  int stage;
  json keys;
  double near; ///< allowed difference from a plain loop on the CPU
};

TEST(ZeroGroupsGpu, FollowTheCpu) {
  const json small{
      {"zero_hpz_partition_size", 2},
      {"zero_quantized_weights", true},
      {"zero_quantized_nontrainable_weights", true},
      {"zero_quantized_gradients", true}};
  const std::vector<Way> ways{
      {1, {{"mics_shard_size", 2}}, 1e-4},
      {3, {{"mics_shard_size", 2}}, 1e-4},
      {3, {{"zero_hpz_partition_size", 2}}, 1e-4},
      {3, {{"zero_quantized_weights", true}}, 0.03},
      {2, {{"zero_quantized_gradients", true}}, 0.05},
      {3, small, 0.05}};
  testing::run_ranks(
      {.ranks = 4,
       .backend = distributed::BackendChoice::gloo_on_gpu,
       .limit = std::chrono::seconds(180)},
      [&](const distributed::World& world) {
        ASSERT_EQ(world.device_name(), "cuda:0");
        const Curve wanted = testing::reference<TinyGpt>(8);
        for (const Way& way : ways) {
          SCOPED_TRACE(
              ::testing::Message()
              << "stage " << way.stage << ", " << way.keys.dump());
          json changes = testing::stage(way.stage);
          changes["zero_optimization"].update(way.keys);
          const Curve got = testing::trained<TinyGpt>(world, changes, 2);
          for (std::size_t i = 0; i < wanted.losses.size(); ++i) {
            EXPECT_NEAR(got.losses[i], wanted.losses[i], way.near) << i;
          }
        }
      });
}

} // namespace
} // namespace cairn::zero_groups_gpu_test
