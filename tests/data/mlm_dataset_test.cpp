#include <cairn/data/mlm_dataset.h>

#include "data/byte_tokenizer.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/data/wikitext.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::data::mlm_dataset_test {
namespace {

using fixtures::ByteTokenizer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::string> made_up_lines(std::size_t count) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < count; ++i) {
    std::string line;
    for (std::size_t k = 0; k < 1 + i * 7 % 90; ++k) {
      line += static_cast<char>('a' + (i + k) % 26);
    }
    lines.push_back(line);
  }
  return lines;
}

MlmDataset make(
    const std::vector<std::string>& lines,
    const MlmOptions& options = {},
    const ByteTokenizer& tokenizer = {}) {
  const std::vector<std::string_view> views(lines.begin(), lines.end());
  return MlmDataset(views, tokenizer, options);
}

/// The text before masking.
std::string original(const MlmSample& sample) {
  std::string text;
  for (std::size_t i = 1; i + 1 < sample.tokens.size(); ++i) {
    const std::int64_t token =
        sample.labels[i] != 1 ? sample.labels[i] : sample.tokens[i];
    text += static_cast<char>(token - ByteTokenizer::first_byte);
  }
  return text;
}

TEST(MlmDataset, HidesAnExactNumberOfTokens) {
  const auto lines = made_up_lines(200);
  const MlmDataset dataset = make(lines);
  ASSERT_EQ(dataset.size(), lines.size());
  MlmSample sample;
  for (std::size_t index = 0; index < 3 * dataset.size(); ++index) {
    dataset.read(index, sample);
    const std::string& line = lines[index % lines.size()];
    ASSERT_EQ(sample.tokens.size(), line.size() + 2);
    EXPECT_EQ(sample.tokens.front(), 0);
    EXPECT_EQ(sample.tokens.back(), 2);
    EXPECT_EQ(sample.labels.front(), 1);
    EXPECT_EQ(sample.labels.back(), 1);
    EXPECT_EQ(original(sample), line);
    const auto hidden = static_cast<double>(
        sample.labels.size() - std::ranges::count(sample.labels, 1));
    const double exact = 0.15 * static_cast<double>(line.size());
    EXPECT_GE(hidden, 1);
    EXPECT_LT(std::abs(hidden - std::max(1.0, exact)), 1.0);
  }
}

TEST(MlmDataset, EightyTenTen) {
  const MlmDataset dataset = make({std::string(400, 'x')});
  MlmSample sample;
  int masked = 0;
  int kept = 0;
  int random = 0;
  for (std::size_t index = 0; index < 500; ++index) {
    dataset.read(index, sample);
    for (std::size_t i = 0; i < sample.tokens.size(); ++i) {
      if (sample.labels[i] == 1) {
        continue;
      }
      const std::int64_t token = sample.tokens[i];
      masked += token == ByteTokenizer::mask;
      kept += token == sample.labels[i];
      if (token != ByteTokenizer::mask && token != sample.labels[i]) {
        ++random;
        EXPECT_GE(token, ByteTokenizer::first_byte); // never a special one
      }
    }
  }
  const double all = masked + kept + random;
  EXPECT_NEAR(all, 500 * 60, 1);
  EXPECT_NEAR(masked / all, 0.8, 0.01);
  EXPECT_NEAR(kept / all, 0.1, 0.01);
  EXPECT_NEAR(random / all, 0.1, 0.01);
}

TEST(MlmDataset, ASampleIsItsSeedAndIndex) {
  const auto lines = made_up_lines(100);
  const MlmDataset dataset = make(lines);
  const MlmDataset again = make(lines, {.threads = 3});
  const MlmDataset other = make(lines, {.seed = 5});
  MlmSample one;
  MlmSample two;
  int changed_by_seed = 0;
  int changed_by_epoch = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    dataset.read(i, one);
    again.read(99, two); // independent of earlier reads
    again.read(i, two);
    EXPECT_EQ(one.tokens, two.tokens);
    EXPECT_EQ(one.labels, two.labels);
    other.read(i, two);
    changed_by_seed += one.labels != two.labels;
    dataset.read(i + 100, two);
    changed_by_epoch += one.labels != two.labels;
    EXPECT_EQ(original(one), original(two));
  }
  EXPECT_GT(changed_by_seed, 80);
  EXPECT_GT(changed_by_epoch, 80);
}

/// A checkpoint of today continues with the same samples tomorrow.
TEST(MlmDataset, DrawsStayAsTheyAre) {
  const MlmDataset dataset = make({"masked language modelling"});
  MlmSample sample;
  dataset.read(3, sample);
  std::string shown;
  for (const std::int64_t token : sample.tokens) {
    shown += token == ByteTokenizer::mask ? '_'
        : token < ByteTokenizer::first_byte
        ? static_cast<char>('0' + token)
        : static_cast<char>(token - ByteTokenizer::first_byte);
  }
  EXPECT_EQ(shown, "0mask_d lan_uage modell__g2");
}

TEST(MlmDataset, LongLinesAreCut) {
  const MlmDataset dataset =
      make({std::string(1000, 'a'), "b"}, {.max_length = 16});
  MlmSample sample;
  dataset.read(0, sample);
  EXPECT_EQ(sample.tokens.size(), 16);
  dataset.read(1, sample);
  EXPECT_EQ(original(sample), "b");
}

TEST(MlmDataset, BatchesArePaddedToTheirLongest) {
  const MlmDataset dataset = make({"abc", "a", "abcd"});
  const auto batch_of = [&](const std::vector<std::int64_t>& indices) {
    Batch batch;
    collate(dataset, indices, allocate_host, batch);
    return batch;
  };
  const Batch batch = batch_of({0, 1});
  EXPECT_EQ(batch["tokens"].rows, 2);
  EXPECT_EQ(batch["tokens"].columns, 5);
  EXPECT_THAT(
      batch["attention_mask"].int64s(),
      ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 0, 0));
  const auto tokens = batch["tokens"].int64s();
  EXPECT_EQ(tokens[0], 0);
  EXPECT_EQ(tokens[4], 2);
  EXPECT_EQ(tokens[5], 0);
  EXPECT_EQ(tokens[7], 2);
  EXPECT_EQ(tokens[8], 1);
  EXPECT_EQ(batch["labels"].int64s()[9], 1);
  MlmSample sample;
  dataset.read(0, sample);
  EXPECT_TRUE(std::ranges::equal(tokens.first(5), sample.tokens));
  EXPECT_TRUE(
      std::ranges::equal(batch["labels"].int64s().first(5), sample.labels));
  EXPECT_EQ(batch_of({1, 2})["tokens"].columns, 6);
  EXPECT_EQ(batch_of({1})["tokens"].columns, 3);
  EXPECT_EQ(batch_of({})["tokens"].bytes(), 0);
}

TEST(MlmDataset, ReadsWikiText) {
  const cairn::testing::TemporaryFolder folder;
  const WikiText text(folder.write(
      "wiki.train.tokens",
      " \n = Title = \n \n Some <unk> text . \n"));
  const MlmDataset dataset(text.lines(), ByteTokenizer(), {});
  ASSERT_EQ(dataset.size(), 2);
  MlmSample sample;
  dataset.read(1, sample);
  EXPECT_EQ(original(sample), " Some <unk> text . ");
}

TEST(MlmDataset, RefusesWhatCannotBe) {
  EXPECT_THROW(make({"a"}, {.max_length = 2}), ConfigError);
  EXPECT_THROW(make({"a"}, {.mask_probability = 0.0}), ConfigError);
  EXPECT_THROW(make({"a"}, {.mask_probability = 1.5}), ConfigError);
  EXPECT_THROW(
      make({"a"}, {.random_probability = 0.6, .keep_probability = 0.6}),
      ConfigError);
  EXPECT_THROW(make({}), DataError);
  EXPECT_THROW(make({"", ""}), DataError);
  ByteTokenizer no_mask;
  no_mask.change().mask.reset();
  EXPECT_THAT(
      [&] { make({"a"}, {}, no_mask); },
      ThrowsMessage<ConfigError>(HasSubstr("mask token")));
  ByteTokenizer bert;
  bert.change().begin.reset();
  bert.change().end.reset();
  bert.change().classify = 0;
  bert.change().separator = 2;
  EXPECT_EQ(make({"a"}, {}, bert).size(), 1);
}

} // namespace
} // namespace cairn::data::mlm_dataset_test
