#include <cairn/data/data_selection.h>

#include "data/gpt_golden.h"
#include "data/samples/blend_index.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::data::blend_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

using Words = std::vector<std::string>;

TEST(Blend, ParsesPrefixesWithAndWithoutWeights) {
  EXPECT_EQ(Blend::parse(Words{"A"}), (Blend{{"A"}}));
  EXPECT_EQ(Blend::parse(Words{"A", "B"}), (Blend{{"A", "B"}}));
  EXPECT_EQ(Blend::parse(Words{"A B", "C"}), (Blend{{"A", "B", "C"}}));
  const Blend weighted{{"A", "B"}, std::vector<double>{0.3, 0.7}};
  EXPECT_EQ(Blend::parse(Words{"0.3", "A", "0.7", "B"}), weighted);
  EXPECT_EQ(Blend::parse(Words{" 0.3 A\n0.7  B "}), weighted);
  EXPECT_EQ(
      Blend::parse(Words{"1", "A"}),
      (Blend{{"A"}, std::vector<double>{1.0}}));
  EXPECT_EQ(Blend::parse(Words{"12"}), (Blend{{"12"}}));
}

TEST(Blend, RefusesWhatDoesNotTakeTurns) {
  for (const Words& words : std::vector<Words>{
           {},
           {" "},
           {"0.3", "A", "B"},
           {"A", "0.3", "B"},
           {"A", "0.3"},
           {"0.3", "A", "0.7"},
           {"0.3", "A", "B", "C"},
           {"-1", "A", "2", "B"},
           {"0", "A", "2", "B"},
           {"nan", "A", "2", "B"},
           {"inf", "A", "2", "B"}}) {
    EXPECT_THROW(Blend::parse(words), ConfigError)
        << ::testing::PrintToString(words);
  }
}

TEST(Blend, IndicesByWeightEveryGoldenCase) {
  for (const json& test : gpt_golden_cases("build_blending_indices.json")) {
    const BlendIndex index = build_blend_index(
        test.at("weights").get<std::vector<double>>(),
        test.at("size"),
        BlendRounding::once);
    const BlendIndex expected{
        test.at("dataset_index"),
        test.at("dataset_sample_index")};
    EXPECT_EQ(index, expected) << test.at("weights");
  }
}

// Megatron's helper gives this if the compiler does not fuse multiplication and
// addition.
TEST(Blend, TiesOnX86) {
  const std::vector<double> weights{0.1, 0.2, 0.3, 0.4};
  const auto twice = build_blend_index(weights, 30, BlendRounding::twice);
  const std::vector<std::int16_t> expected{3, 2, 1, 0, 3, 2, 3, 1, 2, 3,
                                           0, 3, 2, 1, 3, 2, 3, 1, 2, 3,
                                           0, 3, 2, 1, 3, 2, 3, 1, 2, 3};
  EXPECT_EQ(twice.datasets, expected);
  EXPECT_NE(
      build_blend_index(weights, 30, BlendRounding::once).datasets,
      expected);
}

TEST(Blend, IndicesBySizeEveryGoldenCase) {
  for (const json& test :
       gpt_golden_cases("build_exhaustive_blending_indices.json")) {
    const BlendIndex index = build_exhaustive_blend_index(
        test.at("sizes").get<std::vector<std::int64_t>>(),
        BlendRounding::once);
    const BlendIndex expected{
        test.at("dataset_index"),
        test.at("dataset_sample_index")};
    EXPECT_EQ(index, expected) << test.at("sizes");
  }
}

Blend blend_of(const json& test) {
  Blend blend;
  for (const json& entry : test.at("blend")) {
    blend.prefixes.push_back(gpt_golden(entry[0]).string());
    if (!entry[1].is_null()) {
      if (!blend.weights) {
        blend.weights.emplace();
      }
      blend.weights->push_back(entry[1]);
    }
  }
  return blend;
}

void expect_blend(
    const GptDatasets& built,
    Split split,
    const json& expected,
    const std::filesystem::path& folder) {
  if (expected.is_null()) {
    EXPECT_FALSE(built[split]);
    return;
  }
  ASSERT_TRUE(built[split]);
  const BlendedGptDataset& dataset = *built[split];
  EXPECT_EQ(dataset.size(), expected.at("len").get<std::size_t>());
  ASSERT_EQ(dataset.datasets().size(), expected.at("per_dataset").size());
  for (std::size_t i = 0; i < dataset.datasets().size(); ++i) {
    EXPECT_EQ(
        dataset.datasets()[i].size(),
        expected.at("per_dataset")[i].at("len").get<std::size_t>());
  }
  expect_samples(dataset, expected.at("samples"), expected.at("files"));
  for (const std::string name : {"dataset_index", "dataset_sample_index"}) {
    const std::string golden = read_file(
        gpt_golden(
            expected.at("files").get<std::string>() + "." + name + ".npy"),
        1 << 20);
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      found += entry.path().string().ends_with(
                   "-BlendedDataset-" + std::string(name_of(split)) + "-" +
                   name + ".npy") &&
              read_file(entry.path(), 1 << 20) == golden
          ? 1
          : 0;
    }
    EXPECT_EQ(found, 1) << expected.at("files") << ' ' << name;
  }
}

TEST(Blend, DatasetsEveryGoldenCase) {
  for (const json& test : gpt_golden_cases("blend.json")) {
    const TemporaryFolder folder;
    GptDataOptions options = gpt_options(test, folder.path());
    options.data.blend = blend_of(test);
    options.data.blend_rounding = BlendRounding::once; // where they were made
    const GptDatasets built = build_gpt_datasets(options, quiet());
    for (const Split split : all_splits) {
      const json& expected = test.at("splits").at(std::string(name_of(split)));
      expect_blend(built, split, expected, folder.path());
    }
    EXPECT_EQ(
        build_gpt_datasets(options, quiet()).checksum(),
        built.checksum());
  }
}

TEST(Blend, PerSplitTakesWholeDatasets) {
  const TemporaryFolder folder;
  GptDataOptions options{
      .data = {.cache_path = folder.path()},
      .sequence_length = 16};
  options.data.blend_per_split = {
      Blend{{gpt_golden("a").string()}},
      std::nullopt,
      Blend{{gpt_golden("b").string(), gpt_golden("c").string()}}};
  const GptDatasets built = build_gpt_datasets(options, quiet());
  EXPECT_EQ(built[Split::train]->size(), 574);
  EXPECT_FALSE(built[Split::train]->blended());
  EXPECT_FALSE(built[Split::valid]);
  EXPECT_EQ(built[Split::test]->size(), 70);
  options.data.blend = Blend{{gpt_golden("a").string()}};
  EXPECT_THROW(build_gpt_datasets(options, quiet()), ConfigError);
}

TEST(Blend, WeightsNeedANumberOfSamples) {
  const TemporaryFolder folder;
  const GptDataOptions options{
      .data =
          {.blend =
               Blend{
                   {gpt_golden("a").string(), gpt_golden("b").string()},
                   std::vector<double>{1.0, 2.0}},
           .cache_path = folder.path()},
      .sequence_length = 16};
  EXPECT_THROW(build_gpt_datasets(options, quiet()), ConfigError);
}

TEST(Blend, NormalizesInNumpysOrder) {
  // numpy.array(w) / numpy.sum(w) for w = [0.1, 0.2, …, 2.0]
  std::vector<double> weights;
  for (int i = 1; i <= 20; ++i) {
    weights.push_back(i / 10.0);
  }
  const std::vector<double> result = normalized(weights);
  EXPECT_EQ(result[0], 0.1 / 21.0);
  EXPECT_EQ(result[19], 2.0 / 21.0);
}

} // namespace
} // namespace cairn::data::blend_test
