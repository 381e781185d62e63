#include <cairn/data/masked_datasets.h>

#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "data/masked_golden.h"

#include <algorithm>
#include <thread>

namespace cairn::data::bert_dataset_test {
namespace {

using namespace fixtures;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

BertOptions options_of(const json& config) {
  return {
      .seed = config.at("random_seed"),
      .sequence_length = config.at("sequence_length"),
      .classification_head = config.at("classification_head"),
      .short_sequence_probability = config.at("short_sequence_probability"),
      .masking = masking_options(config)};
}

BertDataset all_documents(const BertOptions& options) {
  return BertDataset(
      golden_sentences(),
      ElementRange{0, 64},
      golden_vocabulary(),
      options);
}

BertDataset make(const json& test, const std::string& split) {
  BertOptions options = options_of(test.at("config"));
  options.samples = samples_asked(test, split);
  const json& documents = test.at("splits").at(split).at("documents");
  return BertDataset(
      golden_sentences(),
      ElementRange{documents.at(0), documents.at(1)},
      golden_vocabulary(),
      options);
}

void expect_sample(const BertSample& sample, const json& expected) {
  EXPECT_EQ(sample.text, expected.at("text").get<Tokens>());
  EXPECT_EQ(sample.types, expected.at("types").get<Tokens>());
  EXPECT_EQ(sample.labels, expected.at("labels").get<Tokens>());
  EXPECT_EQ(sample.padding_mask, expected.at("padding_mask").get<Tokens>());
  EXPECT_EQ(sample.loss_mask, expected.at("loss_mask").get<Tokens>());
  EXPECT_EQ(sample.is_random, expected.at("is_random").get<int>() != 0);
  EXPECT_EQ(sample.truncated, expected.at("truncated").get<int>() != 0);
}

TEST(BertDataset, ReadsWhatMegatronReads) {
  int samples = 0;
  for (const json& test : golden_cases("bert.json")) {
    for (const auto& [split, expected] : test.at("splits").items()) {
      SCOPED_TRACE(test.at("name").get<std::string>() + " " + split);
      if (expected.is_null()) {
        continue; // a part without documents
      }
      const BertDataset dataset = make(test, split);
      expect_index(dataset.index(), expected);
      BertSample sample;
      for (const json& one : expected.at("samples")) {
        SCOPED_TRACE(one.at("index"));
        dataset.read(one.at("index"), sample);
        expect_sample(sample, one);
        ++samples;
      }
    }
  }
  EXPECT_GT(samples, 20);
}

/// Megatron documents this, and fails.
TEST(BertDataset, OneEpochWithoutANumberOfSamples) {
  const json cases = golden_cases("bert.json");
  const json& test = cases.back();
  ASSERT_TRUE(test.contains("error"));
  const BertDataset dataset = all_documents(options_of(test.at("config")));
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    starts.push_back(dataset.index()[i].first);
  }
  ASSERT_GT(starts.size(), 10);
  std::ranges::sort(starts);
  EXPECT_EQ(std::ranges::adjacent_find(starts), starts.end());
}

TEST(BertDataset, APartWithoutPairsIsAnErrorNotAHang) {
  const auto sentences = golden_sentences();
  const auto starts = sentences->document_indices();
  std::int64_t single = 0;
  const auto sentences_of = [&](std::int64_t document) {
    const auto i = static_cast<std::size_t>(document);
    return starts[i + 1] - starts[i];
  };
  while (sentences_of(single) > 1) {
    ++single;
  }
  const auto over = [&](ElementRange documents, bool pairs) {
    return BertDataset(
        sentences,
        documents,
        golden_vocabulary(),
        {.sequence_length = 64, .classification_head = pairs, .samples = 5});
  };
  EXPECT_THAT(
      [&] {
        over({single, single + 1}, true);
      },
      ThrowsMessage<DataError>(HasSubstr("has 2 sentences")));
  EXPECT_THAT(
      [&] {
        over({3, 3}, false);
      },
      ThrowsMessage<DataError>(HasSubstr("documents [3, 3)")));
}

TEST(BertDataset, NoSamplesAskedForIsAnEmptyDataset) {
  const BertDataset dataset(
      golden_sentences(),
      ElementRange{3, 3},
      golden_vocabulary(),
      {.sequence_length = 64, .samples = 0});
  EXPECT_EQ(dataset.size(), 0);
  BertSample sample;
  EXPECT_THROW(dataset.read(0, sample), InternalError);
}

TEST(BertDataset, RefusesWhatCannotBe) {
  EXPECT_THROW(all_documents({.sequence_length = 4}), ConfigError);
  EXPECT_THROW(all_documents({.seed = 0}), ConfigError);
  EXPECT_THROW(all_documents({.samples = -1}), ConfigError);
  EXPECT_THROW(all_documents({.samples = INT64_MAX}), ConfigError);
  EXPECT_THROW(all_documents({.short_sequence_probability = 1.5}), ConfigError);
  EXPECT_THROW(all_documents({.masking = {.probability = 1.0}}), ConfigError);
  EXPECT_THROW(all_documents({.masking = {.max_ngram = 0}}), ConfigError);
  EXPECT_THROW(
      all_documents({.masking = {.geometric = true, .permute = true}}),
      ConfigError);
  MaskedVocabulary no_cls = golden_vocabulary();
  no_cls.special.classify.reset();
  EXPECT_THAT(
      [&] {
        BertDataset(golden_sentences(), ElementRange{0, 64}, no_cls, {});
      },
      ThrowsMessage<ConfigError>(HasSubstr("[CLS]")));
  MaskedVocabulary small = golden_vocabulary();
  small.continues_word.resize(1000);
  const BertDataset wrong(golden_sentences(), ElementRange{0, 64}, small, {});
  BertSample sample;
  EXPECT_THAT(
      [&] { wrong.read(0, sample); },
      ThrowsMessage<DataError>(HasSubstr("not in the vocabulary")));
}

/// Permuting is not in the golden files; checks the values that it must keep.
TEST(BertDataset, PermutedTokensStayInTheSample) {
  const BertOptions plain{.sequence_length = 128, .samples = 50};
  BertOptions permuting = plain;
  permuting.masking.permute = true;
  const BertDataset without = all_documents(plain);
  const BertDataset with = all_documents(permuting);
  BertSample before;
  BertSample after;
  int moved = 0;
  for (std::size_t i = 0; i < with.size(); ++i) {
    without.read(i, before);
    with.read(i, after);
    for (std::size_t at = 0; at < after.text.size(); ++at) {
      if (before.loss_mask[at] != 0) {
        EXPECT_EQ(after.text[at], before.text[at]);
        EXPECT_EQ(after.labels[at], before.labels[at]);
      } else if (after.loss_mask[at] != 0) {
        EXPECT_EQ(after.labels[at], before.text[at]);
        moved += after.text[at] != before.text[at];
      } else {
        EXPECT_EQ(after.text[at], before.text[at]);
      }
    }
    EXPECT_TRUE(std::ranges::is_permutation(before.text, after.text));
  }
  EXPECT_GT(moved, 50);
}

TEST(BertDataset, AnyThreadReadsTheSameSample) {
  const BertDataset dataset = all_documents({.sequence_length = 96});
  std::vector<BertSample> samples(dataset.size());
  std::thread backwards([&] {
    BertSample sample;
    for (std::size_t i = dataset.size(); i-- > 0;) {
      dataset.read(i, sample);
      samples[i] = sample;
    }
  });
  BertSample sample;
  std::vector<Tokens> forwards;
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    dataset.read(i, sample);
    forwards.push_back(sample.text);
  }
  backwards.join();
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    EXPECT_EQ(samples[i].text, forwards[i]);
  }
}

} // namespace
} // namespace cairn::data::bert_dataset_test
