#include <cairn/data/masked_datasets.h>

#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "data/masked_golden.h"

namespace cairn::data::t5_dataset_test {
namespace {

using namespace fixtures;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

T5Dataset make(const json& test, const std::string& split) {
  const json& config = test.at("config");
  const json& documents = test.at("splits").at(split).at("documents");
  return T5Dataset(
      golden_sentences(),
      ElementRange{documents.at(0), documents.at(1)},
      golden_vocabulary(),
      {.seed = config.at("random_seed"),
       .sequence_length = config.at("sequence_length"),
       .decoder_sequence_length = config.at("sequence_length_decoder"),
       .short_sequence_probability = config.at("short_sequence_probability"),
       .masking = masking_options(config),
       .samples = samples_asked(test, split)});
}

void expect_sample(const T5Sample& sample, const json& expected) {
  EXPECT_EQ(sample.encoder_text, expected.at("text_enc").get<Tokens>());
  EXPECT_EQ(sample.decoder_text, expected.at("text_dec").get<Tokens>());
  EXPECT_EQ(sample.labels, expected.at("labels").get<Tokens>());
  EXPECT_EQ(sample.loss_mask, expected.at("loss_mask").get<Tokens>());
  EXPECT_EQ(sample.encoder_mask, expected.at("enc_mask").get<Tokens>());
  EXPECT_EQ(sample.decoder_mask, expected.at("dec_mask").get<Tokens>());
  EXPECT_EQ(sample.truncated, expected.at("truncated").get<int>() != 0);
}

TEST(T5Dataset, ReadsWhatMegatronReads) {
  int samples = 0;
  for (const json& test : golden_cases("t5.json")) {
    ASSERT_FALSE(test.contains("error"));
    for (const auto& [split, expected] : test.at("splits").items()) {
      SCOPED_TRACE(test.at("name").get<std::string>() + " " + split);
      if (expected.is_null()) {
        continue; // a part without documents
      }
      const T5Dataset dataset = make(test, split);
      expect_index(dataset.index(), expected);
      T5Sample sample;
      for (const json& one : expected.at("samples")) {
        SCOPED_TRACE(one.at("index"));
        dataset.read(one.at("index"), sample);
        expect_sample(sample, one);
        ++samples;
      }
    }
  }
  EXPECT_GT(samples, 10);
}

TEST(T5Dataset, EncoderAndDecoderTogetherHoldTheText) {
  const auto sentences = golden_sentences();
  const T5Dataset dataset(
      sentences,
      ElementRange{0, 64},
      golden_vocabulary(),
      {.sequence_length = 128, .decoder_sequence_length = 64});
  T5Sample sample;
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    dataset.read(i, sample);
    Tokens whole;
    std::size_t at = 1; // in the decoder's text, behind its begin token
    for (const std::int64_t token : sample.encoder_text) {
      if (token < 30524) {
        whole.push_back(token);
        continue;
      }
      ASSERT_EQ(sample.decoder_text[at], token);
      for (++at;
           sample.decoder_mask[at] != 0 && sample.decoder_text[at] < 30524;
           ++at) {
        whole.push_back(sample.decoder_text[at]);
      }
    }
    const MaskedIndex::Row row = dataset.index()[i];
    Tokens expected;
    for (std::size_t s = row.first; s < row.end; ++s) {
      Tokens one(sentences->length(s));
      sentences->read(s, 0, std::span(one));
      expected.insert(expected.end(), one.begin(), one.end());
    }
    EXPECT_EQ(
        sample.truncated,
        expected.size() > static_cast<std::size_t>(row.target_length));
    expected.resize(std::min<std::size_t>(
        expected.size(),
        static_cast<std::size_t>(row.target_length)));
    whole.resize(expected.size()); // the rest is padding
    EXPECT_EQ(whole, expected) << "sample " << i;
  }
}

TEST(T5Dataset, SpansThatDoNotFitAreErrors) {
  const auto read_all = [](const MaskedVocabulary& vocabulary,
                           std::int64_t decoder_length) {
    const T5Dataset dataset(
        golden_sentences(),
        ElementRange{0, 64},
        vocabulary,
        {.sequence_length = 128,
         .decoder_sequence_length = decoder_length,
         .masking = {.max_ngram = 1}});
    T5Sample sample;
    for (std::size_t i = 0; i < dataset.size(); ++i) {
      dataset.read(i, sample);
    }
  };
  MaskedVocabulary vocabulary = golden_vocabulary();
  read_all(vocabulary, 64);
  EXPECT_THAT(
      [&] { read_all(vocabulary, 8); },
      ThrowsMessage<DataError>(HasSubstr("--decoder-seq-length")));
  EXPECT_THROW(read_all(vocabulary, 1), ConfigError);
  vocabulary.special.sentinels.resize(3);
  EXPECT_THAT(
      [&] { read_all(vocabulary, 64); },
      ThrowsMessage<DataError>(HasSubstr("3 sentinels")));
  vocabulary.special.sentinels.clear();
  EXPECT_THAT(
      [&] { read_all(vocabulary, 64); },
      ThrowsMessage<ConfigError>(HasSubstr("--vocab-extra-ids")));
}

} // namespace
} // namespace cairn::data::t5_dataset_test
