#include <cairn/data/masked_dataset.h>

#include "data/masked_golden.h"
#include "data/samples/masked_index_files.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/data/indexed_writer.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

namespace cairn::data::masked_index_test {
namespace {

using namespace fixtures;
using cairn::testing::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Documents with sentences of these lengths.
IndexedDataset make_sentences(
    const TemporaryFolder& folder,
    const std::vector<std::vector<std::size_t>>& documents) {
  const std::filesystem::path prefix = folder / "made";
  IndexedWriter writer(prefix, {.type = TokenType::uint16});
  for (const auto& document : documents) {
    for (const std::size_t length : document) {
      writer.add_sequence(std::vector<std::int32_t>(length, 7));
    }
    writer.end_document();
  }
  writer.commit();
  return IndexedDataset(prefix);
}

std::set<std::pair<std::size_t, std::size_t>> runs(const MaskedIndex& index) {
  std::set<std::pair<std::size_t, std::size_t>> all;
  for (std::size_t i = 0; i < index.size(); ++i) {
    all.emplace(index[i].first, index[i].end);
  }
  return all;
}

TEST(MaskedIndex, SentencesUntilTheTargetAndNoneLeftAlone) {
  const TemporaryFolder folder;
  const IndexedDataset sentences =
      make_sentences(folder, {{4, 4, 4, 4, 4}, {}, {9}, {3, 3}});
  const MaskedIndex::Options options{
      .max_length = 8,
      .short_probability = 0.0,
      .min_sentences = 1};
  EXPECT_EQ(
      runs(MaskedIndex(sentences, {0, 4}, options)),
      (std::set<std::pair<std::size_t, std::size_t>>{
          {0, 2},
          {2, 5},
          {5, 6},
          {6, 8}}));
  MaskedIndex::Options pairs = options;
  pairs.min_sentences = 2;
  EXPECT_EQ(
      runs(MaskedIndex(sentences, {0, 4}, pairs)),
      (std::set<std::pair<std::size_t, std::size_t>>{{0, 2}, {2, 5}, {6, 8}}));
}

TEST(MaskedIndex, ALongSentenceSpoilsItsDocument) {
  const TemporaryFolder folder;
  const IndexedDataset sentences =
      make_sentences(folder, {{2, 513, 2}, {2, 512}, {600}});
  const MaskedIndex::Options options{
      .max_length = 2000,
      .short_probability = 0.0,
      .min_sentences = 1};
  EXPECT_EQ(
      runs(MaskedIndex(sentences, {0, 3}, options)),
      (std::set<std::pair<std::size_t, std::size_t>>{{3, 5}, {5, 6}}));
  EXPECT_THROW(MaskedIndex(sentences, {0, 1}, options), DataError);
}

TEST(MaskedIndex, MoreSamplesThanMemoryIsAnError) {
  const TemporaryFolder folder;
  const IndexedDataset sentences = make_sentences(folder, {{4, 4}});
  EXPECT_THAT(
      [&] {
        MaskedIndex(
            sentences,
            {0, 1},
            {.max_length = 8, .samples = std::int64_t{1} << 40});
      },
      ThrowsMessage<DataError>(HasSubstr("does not fit into memory")));
}

TEST(MaskedIndex, TargetsStayWithinTheLength) {
  for (const double probability : {0.1, 0.5, 1.0}) {
    const MaskedIndex index(
        *golden_sentences(),
        {0, 64},
        {.max_length = 10, .short_probability = probability, .samples = 500});
    int shorter = 0;
    for (std::size_t i = 0; i < index.size(); ++i) {
      ASSERT_GE(index[i].target_length, 2);
      ASSERT_LE(index[i].target_length, 10);
      shorter += index[i].target_length < 10;
    }
    // A short target is as long as the others in one of nine cases.
    EXPECT_NEAR(
        shorter / static_cast<double>(index.size()),
        probability * 8 / 9,
        0.1);
  }
}

TEST(MaskedIndex, RefusesArraysOfAnotherKind) {
  EXPECT_THROW(
      MaskedIndex(IndexArray::of(std::vector<std::uint32_t>{1, 2, 3})),
      DataError);
  const auto broken = std::make_shared<std::vector<std::uint32_t>>(
      std::vector<std::uint32_t>{5, 1000000, 61});
  const BertDataset dataset(
      golden_sentences(),
      MaskedIndex(
          IndexArray(std::span<const std::uint32_t>(*broken), {1, 3}, broken)),
      golden_vocabulary(),
      {.sequence_length = 64});
  BertSample sample;
  EXPECT_THAT(
      [&] { dataset.read(0, sample); },
      ThrowsMessage<DataError>(HasSubstr("does not belong")));
}

TEST(MaskedIndexFiles, AreBuiltOnceUnderMegatronsNames) {
  const TemporaryFolder folder;
  const auto sentences = golden_sentences();
  const BertOptions options{.sequence_length = 64, .samples = 60};
  const auto shares = SplitShares::parse("60,40,0");
  IndexCache cache(folder.path(), Logger());
  const MaskedIndexFile built =
      open_masked_index(cache, *sentences, Split::train, shares, options);
  EXPECT_EQ(built.origin, IndexOrigin::built);
  const json test = golden_cases("bert.json").at(0);
  expect_index(built.index, test.at("splits").at("train"));
  EXPECT_THAT(
      built.file.filename().string(),
      ::testing::MatchesRegex("[0-9a-f]{32}-BERTMaskedWordPieceDataset"));
  EXPECT_TRUE(
      std::filesystem::exists(built.file.string() + "-sample_index.npy"));
  std::ifstream golden_file(
      golden("bert0.train.sample_index.npy"),
      std::ios::binary);
  std::ifstream our_file(
      built.file.string() + "-sample_index.npy",
      std::ios::binary);
  EXPECT_TRUE(std::equal(
      std::istreambuf_iterator<char>(golden_file),
      {},
      std::istreambuf_iterator<char>(our_file),
      {}));

  const MaskedIndexFile again =
      open_masked_index(cache, *sentences, Split::train, shares, options);
  EXPECT_EQ(again.origin, IndexOrigin::file);
  EXPECT_EQ(again.file, built.file);
  EXPECT_EQ(again.index.array().checksum(), built.index.array().checksum());

  const auto valid =
      open_masked_index(cache, *sentences, Split::valid, shares, options);
  EXPECT_NE(valid.file, built.file);
  const auto t5 = open_masked_index(
      cache,
      *sentences,
      Split::train,
      shares,
      T5Options{
          .sequence_length = 64,
          .decoder_sequence_length = 32,
          .samples = 60});
  EXPECT_THAT(t5.file.filename().string(), HasSubstr("T5MaskedWordPiece"));
  expect_index(
      t5.index,
      golden_cases("t5.json").at(0).at("splits").at("train"));
}

TEST(MaskedIndexFiles, ThatDoNotFitAreReplaced) {
  const TemporaryFolder folder;
  const auto sentences = golden_sentences();
  const BertOptions options{.sequence_length = 64, .samples = 60};
  const auto shares = SplitShares::parse("1");
  IndexCache cache(folder.path(), Logger());
  const auto open = [&] {
    return open_masked_index(cache, *sentences, Split::train, shares, options);
  };
  const MaskedIndexFile built = open();
  const std::string file = built.file.string() + "-sample_index.npy";
  const std::uint32_t checksum = built.index.array().checksum();
  auto rows = std::make_shared<std::vector<std::uint32_t>>(3 * 60, 99999);
  save_npy(
      file,
      IndexArray(std::span<const std::uint32_t>(*rows), {60, 3}, rows));
  EXPECT_EQ(open().origin, IndexOrigin::built);
  EXPECT_EQ(open().origin, IndexOrigin::file);
  EXPECT_EQ(open().index.array().checksum(), checksum);
  folder.write(std::filesystem::path(file).filename().string(), "torn");
  EXPECT_EQ(open().index.array().checksum(), checksum);
}

} // namespace
} // namespace cairn::data::masked_index_test
