#include "zero/internal/divided_tier.h"
#include "engine/tier_that_writes_down.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace cairn::zero::divided_tier_test {
namespace {

ShardTensors shard_of(std::int64_t elements, double value) {
  return {
      .weights = at::full({elements}, value, at::kFloat),
      .states = {at::full({elements}, -value, at::kFloat)}};
}

constexpr std::int64_t bytes_of_element = 2 * sizeof(float);

TEST(DividedTier, FillsOnePlaceAfterTheOther) {
  std::vector<TierPlace> places;
  places.push_back({make_memory_tier(MemoryOf::device), 10});
  places.push_back({make_memory_tier(), 7});
  const auto tier = make_divided_tier(std::move(places));
  EXPECT_FALSE(tier->keeps_memory());
  // The second is too large for what is left of the first place, the third is
  // not, and the last place takes all the rest.
  const std::vector<std::int64_t> sizes{6, 5, 4, 1, 100};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    tier->put(static_cast<int>(i), shard_of(sizes[i], static_cast<double>(i)));
  }
  EXPECT_EQ(tier->bytes().device, 10 * bytes_of_element);
  EXPECT_EQ(tier->bytes().memory, 106 * bytes_of_element);
  EXPECT_EQ(tier->bytes().disk, 0);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const int bucket = static_cast<int>(i);
    tier->prefetch(bucket);
    const ShardTensors found = tier->acquire(bucket);
    EXPECT_EQ(found.weights.numel(), sizes[i]);
    EXPECT_EQ(found.weights[0].item<float>(), static_cast<float>(i));
    EXPECT_EQ(found.states[0][0].item<float>(), -static_cast<float>(i));
    found.weights.add_(1);
    tier->give_back(bucket, /*changed=*/true);
  }
  tier->settle();
  EXPECT_EQ(tier->acquire(4).weights[99].item<float>(), 5);
}

TEST(DividedTier, TheFirstOfTheSecondPlaceComesWhileTheFirstPlaceIsUsed) {
  testing::AskedFor asked;
  std::vector<TierPlace> places;
  places.push_back({make_memory_tier(MemoryOf::device), 10});
  places.push_back({std::make_unique<testing::TierThatWritesDown>(asked), 0});
  const auto tier = make_divided_tier(std::move(places));
  for (const int bucket : {3, 2, 1, 0}) { // two for each place
    tier->put(bucket, shard_of(5, bucket));
  }
  for (const int bucket : {3, 2}) {
    (void)tier->acquire(bucket);
    EXPECT_EQ(asked.prefetched, std::vector<int>{1});
  }
}

} // namespace
} // namespace cairn::zero::divided_tier_test
