#include <cairn/base/counter_random.h>
#include <cairn/base/error.h>
#include <cairn/pipeline/partition.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace cairn::pipeline::partition_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = PartitionMethod::Kind;

TEST(Partition, UniformGivesTheFirstStagesOneMore) {
  EXPECT_THAT(partition_uniform(24, 4), ElementsAre(0, 6, 12, 18, 24));
  EXPECT_THAT(partition_uniform(7, 3), ElementsAre(0, 3, 5, 7));
}

double heaviest(const std::vector<double>& weights, std::vector<int> cuts) {
  double result = 0;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
    double sum = 0;
    for (int i = cuts[s]; i < cuts[s + 1]; ++i) {
      sum += weights[static_cast<std::size_t>(i)];
    }
    result = std::max(result, sum);
  }
  return result;
}

/// The lightest heaviest stage, found by trying all cuts.
double lightest(const std::vector<double>& weights, int stages) {
  const int layers = static_cast<int>(weights.size());
  double best = 1e300;
  std::vector<int> cuts{0};
  const std::function<void()> extend = [&] {
    const int left = stages - static_cast<int>(cuts.size());
    if (left == 0) {
      cuts.push_back(layers);
      best = std::min(best, heaviest(weights, cuts));
      cuts.pop_back();
      return;
    }
    for (int cut = cuts.back() + 1; cut <= layers - left; ++cut) {
      cuts.push_back(cut);
      extend();
      cuts.pop_back();
    }
  };
  extend();
  return best;
}

TEST(Partition, BalancedIsTheBestThereIs) {
  const CounterRandom random(3, "weights");
  std::uint64_t next = 0;
  for (int layers = 1; layers <= 10; ++layers) {
    for (int stages = 1; stages <= layers; ++stages) {
      std::vector<double> weights;
      for (int i = 0; i < layers; ++i) {
        weights.push_back(std::floor(10 * random.uniform(next++)));
      }
      const std::vector<int> cuts = partition_balanced(weights, stages);
      ASSERT_EQ(cuts.size(), static_cast<std::size_t>(stages) + 1);
      EXPECT_EQ(cuts.front(), 0);
      EXPECT_EQ(cuts.back(), layers);
      EXPECT_EQ(std::adjacent_find(cuts.begin(), cuts.end()), cuts.end());
      EXPECT_EQ(heaviest(weights, cuts), lightest(weights, stages));
    }
  }
}

TEST(Partition, EvenWhereTheHeaviestLeavesAChoice) {
  // The first stage has to carry 9; the rest is to be shared evenly.
  EXPECT_THAT(
      partition_balanced(std::vector<double>{9, 1, 1, 1, 1}, 3),
      ElementsAre(0, 1, 3, 5));
}

TEST(Partition, ByParametersTypeOrWeights) {
  const std::vector<LayerFacts> layers = {
      {"Embedding", 100},
      {"", 0},
      {"GptBlock", 10},
      {"GptBlock", 10},
      {"GptBlock", 10},
      {"GptBlock", 10},
      {"LayerNorm", 1}};
  const auto cut = [&](const PartitionMethod& method) {
    return partition(layers, 2, method);
  };
  EXPECT_THAT(cut(PartitionMethod::parse("uniform")), ElementsAre(0, 4, 7));
  EXPECT_THAT(cut(PartitionMethod::parse("parameters")), ElementsAre(0, 1, 7));
  EXPECT_THAT(cut(PartitionMethod::parse("best")), ElementsAre(0, 1, 7));
  EXPECT_THAT(cut(PartitionMethod::parse("type:block$")), ElementsAre(0, 4, 7));
  EXPECT_THAT(
      cut({.kind = Kind::weights, .weights = {1, 1, 1, 1, 1, 1, 6}}),
      ElementsAre(0, 6, 7));
}

TEST(Partition, SaysWhatIsWrong) {
  const std::vector<LayerFacts> layers(3, {"Linear", 1});
  const auto complaint = [&](int stages, const PartitionMethod& method) {
    try {
      partition(layers, stages, method);
      return std::string();
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(complaint(4, {}), HasSubstr("3 layers, 4 stages"));
  EXPECT_THAT(complaint(0, {}), HasSubstr("3 layers, 0 stages"));
  EXPECT_THAT(
      complaint(2, PartitionMethod::parse("type:conv")),
      HasSubstr("the first layer is a Linear"));
  EXPECT_THAT(
      complaint(2, {.kind = Kind::weights, .weights = {1}}),
      HasSubstr("1 weights, 3 layers"));
  EXPECT_THAT(
      complaint(2, {.kind = Kind::weights, .weights = {1, -1, 1}}),
      HasSubstr("-1"));
  EXPECT_THROW(PartitionMethod::parse("type:("), ConfigError);
  EXPECT_THROW(PartitionMethod::parse("evenly"), ConfigError);
}

} // namespace
} // namespace cairn::pipeline::partition_test
