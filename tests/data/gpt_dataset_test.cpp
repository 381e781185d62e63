#include <cairn/data/gpt_datasets.h>

#include "data/gpt_golden.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/data/indexed_writer.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace cairn::data::gpt_dataset_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

// Compares the files byte for byte: Megatron can go on with them.
void expect_same_files(const DatasetPart& part, const std::string& golden) {
  for (const std::string name :
       {"document_index", "sample_index", "shuffle_index"}) {
    EXPECT_EQ(
        read_file(part.file.string() + "-" + name + ".npy", 1 << 20),
        read_file(gpt_golden(golden + "." + name + ".npy"), 1 << 20))
        << golden << ' ' << name;
  }
}

void expect_split(
    const GptDatasets& built,
    Split split,
    const json& expected,
    const std::string& name) {
  if (expected.is_null()) {
    EXPECT_FALSE(built[split]) << name;
    return;
  }
  ASSERT_TRUE(built[split]) << name;
  EXPECT_EQ(built[split]->size(), expected.at("len").get<std::size_t>());
  for (const DatasetPart& part : built.parts) {
    if (part.split == split) {
      EXPECT_EQ(
          (std::vector{part.documents.begin, part.documents.end}),
          expected.at("documents").get<std::vector<std::int64_t>>());
      EXPECT_EQ(part.tokens, expected.at("tokens_per_epoch"));
      EXPECT_EQ(part.epochs.value(), expected.at("epochs"));
      expect_same_files(part, expected.at("files"));
    }
  }
  expect_samples(*built[split], expected.at("samples"), name);
}

TEST(GptDataset, EveryGoldenCase) {
  int splits = 0;
  for (const json& test : gpt_golden_cases("gpt.json")) {
    const TemporaryFolder folder;
    GptDataOptions options = gpt_options(test, folder.path());
    options.data.blend = Blend{{gpt_golden(test.at("dataset")).string()}};
    const std::string name = test.at("name");
    if (test.contains("error")) {
      EXPECT_THROW(build_gpt_datasets(options, quiet()), DataError) << name;
      continue;
    }
    const GptDatasets built = build_gpt_datasets(options, quiet());
    const GptDatasets again = build_gpt_datasets(options, quiet());
    for (const Split split : all_splits) {
      const json& expected = test.at("splits").at(std::string(name_of(split)));
      expect_split(built, split, expected, name);
      expect_split(again, split, expected, name);
      splits += expected.is_null() ? 0 : 1;
    }
    for (const DatasetPart& part : built.parts) {
      EXPECT_EQ(part.origin, IndexOrigin::built);
    }
    for (const DatasetPart& part : again.parts) {
      EXPECT_EQ(part.origin, IndexOrigin::file);
    }
    EXPECT_EQ(built.checksum(), again.checksum());
  }
  EXPECT_EQ(splits, 27);
}

/// Documents of these lengths, of tokens 1, 2, 3, …
std::string write_documents(
    const TemporaryFolder& folder,
    const std::vector<int>& lengths) {
  const std::string prefix = folder / "data";
  IndexedWriter writer(prefix, {});
  std::int32_t next = 1;
  for (const int length : lengths) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(length));
    std::iota(ids.begin(), ids.end(), next);
    next += length;
    writer.add_sequence(ids);
    writer.end_document();
  }
  writer.commit();
  return prefix;
}

GptDataOptions small_options(const std::string& prefix) {
  return {
      .data = {.blend = Blend{{prefix}}, .split = "1,0,0"},
      .sequence_length = 4};
}

void expect_refused(const GptDataOptions& options, const std::string& text) {
  try {
    build_gpt_datasets(options, quiet());
    FAIL() << "no error: " << text;
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(GptDataset, WhatMegatronHangsOrAbortsOnIsAnError) {
  const TemporaryFolder folder;
  const std::string prefix = write_documents(folder, {5, 5, 1});
  GptDataOptions options = small_options(prefix);
  options.sequence_length = 1;
  expect_refused(options, "sequence length of at least 2");
  options = small_options(prefix);
  options.data.split = "2,0,1";
  expect_refused(options, "data (test): the split's documents have one token");
  options.data.split = "99,1,0";
  expect_refused(options, "data (valid): no document falls to the split");
  options.data.samples = {1, 0, 0};
  EXPECT_TRUE(build_gpt_datasets(options, quiet())[Split::train]);
  EXPECT_FALSE(build_gpt_datasets(options, quiet())[Split::valid]);
}

TEST(GptDataset, DocumentsWithoutTokens) {
  const TemporaryFolder folder;
  expect_refused(
      small_options(write_documents(folder, {0, 0})),
      "documents have no token");
}

TEST(GptDataset, MoreEpochsThanMemoryIsAnError) {
  const TemporaryFolder folder;
  GptDataOptions options = small_options(write_documents(folder, {5, 5}));
  options.data.samples[0] = std::int64_t{1} << 60;
  expect_refused(options, "do not fit into memory");
}

TEST(GptDataset, FewerTokensThanASampleGiveNone) {
  const TemporaryFolder folder;
  GptDataOptions options = small_options(write_documents(folder, {2, 1}));
  EXPECT_EQ(build_gpt_datasets(options, quiet())[Split::train]->size(), 0);
}

TEST(GptDataset, EveryTokenOfAnEpochOnceThroughEmptyDocuments) {
  const TemporaryFolder folder;
  const auto options =
      small_options(write_documents(folder, {0, 7, 0, 1, 3, 0, 0, 9, 1}));
  const GptDatasets built = build_gpt_datasets(options, quiet());
  ASSERT_EQ(built[Split::train]->size(), 5);
  std::vector<std::int64_t> tokens;
  GptSample sample;
  for (std::size_t i = 0; i < 5; ++i) {
    built[Split::train]->read(i, sample);
    tokens.insert(tokens.end(), sample.tokens.begin(), sample.tokens.end());
  }
  std::sort(tokens.begin(), tokens.end());
  EXPECT_EQ(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

TEST(GptDataset, TheLastSampleMayEndInAnEmptyDocument) {
  const TemporaryFolder folder;
  const auto documents =
      std::make_shared<const IndexedDataset>(write_documents(folder, {7, 0}));
  int empty_last = 0;
  for (std::uint32_t seed = 1; seed < 9; ++seed) {
    const GptIndexRequest request{
        .documents = {0, 2},
        .sequence_length = 4,
        .seed = seed,
        .drop_last = false};
    const auto index = build_gpt_index(
        request,
        GptIndexPlan::make(request, 7),
        lengths_of(*documents));
    empty_last += index.samples[5] == -1 ? 1 : 0;
    const GptDataset dataset(documents, index, request, {}, "files");
    ASSERT_EQ(dataset.size(), 2U);
    std::int64_t padding = 0;
    GptSample sample;
    for (std::size_t i = 0; i < 2; ++i) {
      dataset.read(i, sample);
      padding += std::count(sample.tokens.begin(), sample.tokens.end(), 0);
    }
    EXPECT_EQ(padding, 1);
  }
  EXPECT_GT(empty_last, 0);
}

TEST(GptDataset, ReadsWithoutAllocatingAgain) {
  const TemporaryFolder folder;
  const auto built = build_gpt_datasets(
      small_options(write_documents(folder, {9, 9, 9})),
      quiet());
  GptSample sample;
  built[Split::train]->read(0, sample);
  const auto* tokens = sample.tokens.data();
  const auto* mask = sample.loss_mask.data();
  built[Split::train]->read(3, sample);
  EXPECT_EQ(sample.tokens.data(), tokens);
  EXPECT_EQ(sample.loss_mask.data(), mask);
}

TEST(GptDataset, IndicesThatLeadAstrayAreAnError) {
  const TemporaryFolder folder;
  const auto documents = std::make_shared<const IndexedDataset>(
      write_documents(folder, {5, 5, 5}));
  const GptIndexRequest request{.documents = {0, 3}, .sequence_length = 4};
  const auto good = build_gpt_index(
      request,
      GptIndexPlan::make(request, 15),
      lengths_of(*documents));
  const auto expect_bad = [&](const GptIndex& index) {
    const GptDataset dataset(documents, index, request, {}, "files");
    int errors = 0;
    GptSample sample;
    for (std::size_t i = 0; i < dataset.size(); ++i) {
      try {
        dataset.read(i, sample);
      } catch (const DataError& error) {
        EXPECT_THAT(error.what(), HasSubstr("do not belong"));
        ++errors;
      }
    }
    EXPECT_GT(errors, 0);
  };
  using Ints = std::vector<std::int32_t>;
  for (const std::int32_t bad : {-1, 3, 1 << 30}) {
    GptIndex index = good;
    index.documents = IndexArray::of(Ints{0, bad, 2});
    expect_bad(index);
    for (std::size_t i = 0; i < good.samples.size(); ++i) {
      const auto values = good.samples.values<std::int32_t>();
      Ints samples(values.begin(), values.end());
      samples[i] = i % 2 == 1 && bad == 3 ? 9 : bad;
      index = good;
      index.samples = IndexArray::of(samples);
      expect_bad(index);
    }
    index = good;
    index.shuffle = IndexArray::of(std::vector<std::int64_t>{0, 1, bad});
    expect_bad(index);
  }
}

TEST(GptSample, DocumentBounds) {
  std::vector<std::int32_t> bounds;
  document_bounds(std::vector<std::int64_t>{5, 0, 0, 7, 8, 0}, 0, bounds);
  EXPECT_EQ(bounds, (std::vector<std::int32_t>{0, 2, 3, 6}));
}

} // namespace
} // namespace cairn::data::gpt_dataset_test
