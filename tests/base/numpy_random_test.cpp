#include "base/internal/numpy_random.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace cairn::numpy_random_test {
namespace {

using nlohmann::json;

const json& golden() {
  static const json cases = json::parse(
      read_file(CAIRN_GOLDEN_DIR "/numpy_random/cases.json", 1 << 20));
  return cases;
}

double exact(const json& hexadecimal) {
  return std::strtod(hexadecimal.get<std::string>().c_str(), nullptr);
}

std::int64_t wide(const json& decimal) {
  return std::stoll(decimal.get<std::string>());
}

NumpyRandom seeded(const json& test) {
  return NumpyRandom(test.at("seed").get<std::uint32_t>());
}

/// The checksum of zlib, which is not crc32c.
std::uint32_t crc32(std::span<const std::byte> bytes) {
  std::uint32_t state = 0xffffffff;
  for (const std::byte byte : bytes) {
    state ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      state = (state >> 1) ^ ((state & 1) != 0 ? 0xedb88320U : 0U);
    }
  }
  return ~state;
}

TEST(NumpyRandom, RandomSample) {
  for (const json& test : golden().at("random_sample")) {
    NumpyRandom random = seeded(test);
    for (const json& value : test.at("values")) {
      ASSERT_EQ(random.random_sample(), exact(value)) << test.at("seed");
    }
  }
  for (const json& test : golden().at("long_run")) {
    NumpyRandom random = seeded(test);
    for (int i = 0; i < test.at("skip").get<int>(); ++i) {
      random.random_sample();
    }
    EXPECT_EQ(random.random_sample(), exact(test.at("value")));
  }
}

TEST(NumpyRandom, ArraySeeds) {
  for (const json& test : golden().at("array_seed")) {
    const auto seed = test.at("seed").get<std::vector<std::uint32_t>>();
    NumpyRandom random(std::span<const std::uint32_t>{seed});
    for (const json& value : test.at("values")) {
      ASSERT_EQ(random.random_sample(), exact(value)) << seed.size();
    }
  }
  EXPECT_THROW(NumpyRandom(std::span<const std::uint32_t>{}), ConfigError);
}

TEST(NumpyRandom, Randint) {
  for (const json& test : golden().at("randint")) {
    if (test.at("high") == "9223372036854775808") {
      continue; // numpy's whole range: ours takes high as int64, see below
    }
    const std::int64_t low = wide(test.at("low"));
    const std::int64_t high = wide(test.at("high"));
    const json& values = test.at("values");
    NumpyRandom one_by_one = seeded(test);
    for (const json& value : values) {
      ASSERT_EQ(one_by_one.randint(low, high), wide(value)) << test.dump();
    }
    const auto at_once =
        seeded(test).randint<std::int64_t>(low, high, values.size());
    EXPECT_EQ(at_once.back(), wide(values.back()));
    if (test.at("dtype") == "int32" && high <= INT32_MAX) {
      const auto narrow = seeded(test).randint<std::int32_t>(
          static_cast<std::int32_t>(low),
          static_cast<std::int32_t>(high),
          values.size());
      EXPECT_EQ(narrow.back(), wide(values.back()));
    }
  }
}

TEST(NumpyRandom, RandintOverTheWholeRangeIsRawBits) {
  for (const json& test : golden().at("randint")) {
    if (test.at("high") == "9223372036854775808") {
      NumpyRandom random = seeded(test);
      for (const json& value : test.at("values")) {
        ASSERT_EQ(
            random.bits64() + (1ULL << 63),
            static_cast<std::uint64_t>(wide(value)));
      }
    }
  }
}

TEST(NumpyRandom, EmptyRangesAreErrors) {
  NumpyRandom random(1);
  EXPECT_THROW(random.randint(3, 3), ConfigError);
  EXPECT_THROW(random.randint(4, 3), ConfigError);
  EXPECT_THROW(
      random.choice(3, 4, NumpyRandom::Replacement::without),
      ConfigError);
  EXPECT_THROW(
      random.choice(0, 1, NumpyRandom::Replacement::with),
      ConfigError);
}

TEST(NumpyRandom, Shuffle) {
  for (const json& test : golden().at("shuffle")) {
    NumpyRandom random = seeded(test);
    std::vector<std::int64_t> values(test.at("count").get<std::size_t>());
    std::iota(values.begin(), values.end(), 0);
    random.shuffle(std::span(values));
    if (test.contains("values")) {
      EXPECT_EQ(values, test.at("values").get<std::vector<std::int64_t>>());
    }
    EXPECT_EQ(
        crc32(std::as_bytes(std::span(values))),
        test.at("crc32").get<std::uint32_t>());
    EXPECT_EQ(random.random_sample(), exact(test.at("next")));
  }
}

TEST(NumpyRandom, ShuffleDoesNotCareForTheType) {
  std::vector<std::string> words = {"0", "1", "2", "3", "4", "5", "6", "7"};
  std::vector<std::int64_t> numbers = {0, 1, 2, 3, 4, 5, 6, 7};
  NumpyRandom(3).shuffle(std::span(words));
  NumpyRandom(3).shuffle(std::span(numbers));
  for (std::size_t i = 0; i < words.size(); ++i) {
    EXPECT_EQ(words[i], std::to_string(numbers[i]));
  }
}

// The swaps run behind the draws; the order and the state do not depend on it.
TEST(NumpyRandom, ShufflesAsIfDrawingOneByOne) {
  for (const std::size_t count : {0, 1, 2, 3, 32, 33, 288, 289, 5000, 131073}) {
    std::vector<std::uint32_t> values(count);
    std::iota(values.begin(), values.end(), 0);
    std::vector<std::uint32_t> expected = values;
    NumpyRandom random(7);
    random.shuffle(std::span(values));
    NumpyRandom plain(7);
    for (std::size_t i = count; i-- > 1;) {
      const auto j = plain.randint(0, static_cast<std::int64_t>(i) + 1);
      std::swap(expected[i], expected[static_cast<std::size_t>(j)]);
    }
    EXPECT_EQ(values, expected) << count;
    EXPECT_EQ(random.state(), plain.state()) << count;
    NumpyRandom skipping(7);
    skipping.skip_shuffle(count);
    EXPECT_EQ(skipping.state(), plain.state()) << count;
  }
}

TEST(NumpyRandom, Permutation) {
  for (const json& test : golden().at("permutation")) {
    EXPECT_EQ(
        seeded(test).permutation(test.at("count").get<std::size_t>()),
        test.at("values").get<std::vector<std::int64_t>>());
  }
}

TEST(NumpyRandom, StandardNormal) {
  for (const json& test : golden().at("standard_normal")) {
    NumpyRandom random = seeded(test);
    for (const json& value : test.at("values")) {
      ASSERT_EQ(random.standard_normal(), exact(value)) << test.at("seed");
    }
  }
}

/// The draws that Megatron's masked datasets make.
TEST(NumpyRandom, ChoiceByProbabilityAndGeometric) {
  const json cases = json::parse(read_file(
      CAIRN_GOLDEN_DIR "/masked_dataset/numpy_randomstate.json",
      1 << 20));
  std::array<double, 3> probabilities = {1.0, 1.0 / 2.0, 1.0 / 3.0};
  const double sum = probabilities[0] + probabilities[1] + probabilities[2];
  for (double& probability : probabilities) {
    probability /= sum;
  }
  ASSERT_EQ(cases.size(), 3);
  for (const json& test : cases) {
    NumpyRandom random = seeded(test);
    for (const json& value : test.at("randint_1_7")) {
      ASSERT_EQ(random.randint(1, 7), value.get<std::int64_t>());
    }
    for (const json& value : test.at("then_random")) {
      ASSERT_EQ(random.random_sample(), value.get<double>());
    }
    for (const json& value : test.at("then_choice_p")) {
      ASSERT_EQ(random.choice(probabilities) + 1, value.get<std::size_t>());
    }
    for (const json& value : test.at("then_geometric_02")) {
      ASSERT_EQ(random.geometric(0.2), value.get<std::int64_t>());
    }
    for (const json& value : test.at("then_randint_30522")) {
      ASSERT_EQ(random.randint(0, 30522), value.get<std::int64_t>());
    }
  }
}

TEST(NumpyRandom, GeometricCountsTrials) {
  NumpyRandom random(5);
  for (const double probability : {0.1, 0.34, 0.9}) {
    double sum = 0.0;
    for (int i = 0; i < 10000; ++i) {
      const std::int64_t trials = random.geometric(probability);
      ASSERT_GE(trials, 1);
      sum += static_cast<double>(trials);
    }
    EXPECT_NEAR(sum / 10000 * probability, 1.0, 0.05);
  }
  EXPECT_EQ(random.geometric(1.0), 1);
  EXPECT_GT(random.geometric(1e-17), 0); // numpy's is negative
  EXPECT_THROW(random.geometric(0.0), ConfigError);
  EXPECT_THROW(random.geometric(1.1), ConfigError);
  EXPECT_THROW(random.choice(std::span<const double>{}), ConfigError);
}

TEST(NumpyRandom, KindsOfDrawsInTurn) {
  for (const json& test : golden().at("mixed")) {
    NumpyRandom random = seeded(test);
    std::size_t round = 0;
    for (const json& step : test.at("steps")) {
      std::vector<std::int64_t> order(round++);
      std::iota(order.begin(), order.end(), 0);
      random.shuffle(std::span(order));
      ASSERT_EQ(random.random_sample(), exact(step.at("sample")));
      ASSERT_EQ(random.normal(0.5, 0.02), exact(step.at("normal")));
      ASSERT_EQ(order, step.at("order").get<std::vector<std::int64_t>>());
      ASSERT_EQ(random.randint(0, 1'000'000'000'000), wide(step.at("wide")));
      ASSERT_EQ(
          random.choice(50, 3, NumpyRandom::Replacement::with),
          step.at("with").get<std::vector<std::int64_t>>());
      ASSERT_EQ(
          random.choice(20, 4, NumpyRandom::Replacement::without),
          step.at("without").get<std::vector<std::int64_t>>());
    }
    const json& stored = test.at("state");
    NumpyRandom::State state;
    state.key = stored.at("key").get<std::array<std::uint32_t, 624>>();
    state.position = stored.at("position").get<int>();
    state.has_gauss = stored.at("has_gauss").get<bool>();
    state.cached_gauss = exact(stored.at("cached_gauss"));
    EXPECT_EQ(random.state(), state);
  }
}

TEST(NumpyRandom, ContinuesFromAState) {
  NumpyRandom random(17);
  random.standard_normal(); // leaves a second one in the cache
  random.permutation(1000);
  NumpyRandom other(random.state());
  EXPECT_EQ(other.standard_normal(), random.standard_normal());
  EXPECT_EQ(other.permutation(1000), random.permutation(1000));
  EXPECT_EQ(other.state(), random.state());
}

TEST(NumpyRandom, RefusesABrokenState) {
  NumpyRandom::State state;
  state.position = 625;
  EXPECT_THROW(NumpyRandom{state}, CheckpointError);
  state.position = -1;
  EXPECT_THROW(NumpyRandom{state}, CheckpointError);
  state.position = 624;
  EXPECT_NO_THROW(NumpyRandom{state});
}

} // namespace
} // namespace cairn::numpy_random_test
