// The datasets with real tokenizers, samplers and the loader, as training uses
// them.

#include "data/masked_golden.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/data/character_text_dataset.h>
#include <cairn/data/cifar10_dataset.h>
#include <cairn/data/collate.h>
#include <cairn/data/loader.h>
#include <cairn/data/masked_datasets.h>
#include <cairn/data/mlm_dataset.h>
#include <cairn/data/samplers.h>
#include <cairn/data/wikitext.h>
#include <cairn/text/tokenizer.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace cairn::data::tokenized_datasets_test {
namespace {

using namespace fixtures;
using cairn::testing::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::string uncased =
    CAIRN_GOLDEN_DIR "/tokenizers/bert/vocab-uncased.txt";

/// RoBERTa's ids around the characters that the tests use.
std::string roberta_vocabulary() {
  std::string json = R"({"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"Ġ":4,"=":5)";
  int next = 6;
  for (char c = 'a'; c <= 'z'; ++c) {
    json += ",\"" + std::string(1, c) + "\":" + std::to_string(next++);
  }
  return json + ",\"<mask>\":" + std::to_string(next) + "}";
}

TEST(TokenizedDatasets, BertReadsTheSameThroughItsTokenizer) {
  // Two sentinels more stand for the begin and end tokens of the golden files.
  const auto tokenizer = text::load_tokenizer(
      {.type = "BertWordPieceLowerCase",
       .vocab_file = uncased,
       .extra_ids = 102});
  const MaskedVocabulary vocabulary = MaskedVocabulary::of(*tokenizer);
  EXPECT_EQ(vocabulary.continues_word, golden_vocabulary().continues_word);
  const json test = golden_cases("bert.json").at(0);
  const json& split = test.at("splits").at("train");
  const BertDataset dataset(
      golden_sentences(),
      ElementRange{split.at("documents").at(0), split.at("documents").at(1)},
      vocabulary,
      {.sequence_length = 64, .samples = 60});
  BertSample sample;
  for (const json& expected : split.at("samples")) {
    dataset.read(expected.at("index"), sample);
    EXPECT_EQ(sample.text, expected.at("text").get<Tokens>());
    EXPECT_EQ(sample.labels, expected.at("labels").get<Tokens>());
  }
}

TEST(TokenizedDatasets, MlmWithRobertasTokens) {
  const TemporaryFolder folder;
  text::TokenizerOptions options{
      .type = "RobertaTokenizer",
      .vocab_file = folder.write("vocab.json", roberta_vocabulary()),
      .merge_file = folder.write("merges.txt", "#version: 0.2\n"),
      .add_special_tokens = false};
  const WikiText text(folder.write(
      "wiki.train.tokens",
      " \n = some title = \n \n a <unk> line \n"));
  const auto tokenizer = text::load_tokenizer(options);
  const MlmDataset dataset(text.lines(), *tokenizer, {});
  ASSERT_EQ(dataset.size(), 2);
  EXPECT_EQ(dataset.padding(), 1);
  MlmSample sample;
  dataset.read(1, sample);
  EXPECT_EQ(sample.tokens.front(), 0);
  EXPECT_EQ(sample.tokens.back(), 2);
  std::vector<text::TokenId> original;
  for (std::size_t i = 1; i + 1 < sample.tokens.size(); ++i) {
    original.push_back(static_cast<text::TokenId>(
        sample.labels[i] == 1 ? sample.tokens[i] : sample.labels[i]));
  }
  EXPECT_EQ(original, tokenizer->encode(" a <unk> line "));

  options.add_special_tokens = true;
  const auto adds = text::load_tokenizer(options);
  EXPECT_THAT(
      [&] { MlmDataset(text.lines(), *adds, {}); },
      ThrowsMessage<ConfigError>(HasSubstr("adds special tokens")));
}

TEST(TokenizedDatasets, CharactersOfAText) {
  const TemporaryFolder folder;
  std::string play;
  for (int i = 0; i < 50; ++i) {
    play += "To be, or not to be – that is the question:\n";
  }
  const std::string file = folder.write("input.txt", play);
  const auto tokenizer =
      text::load_tokenizer({.type = "CharTokenizer", .vocab_file = file});
  const auto [train, valid] =
      open_character_text(file, *tokenizer, {.block_size = 16});
  EXPECT_EQ(train.size() + valid.size(), 50 * 44);
  CharacterTextSample sample;
  valid.read(0, sample);
  std::vector<text::TokenId> ids(sample.tokens.begin(), sample.tokens.end());
  ids.push_back(static_cast<text::TokenId>(sample.labels.back()));
  EXPECT_THAT(play, HasSubstr(tokenizer->decode(ids)));
}

/// All batches of some passes, made by so many threads.
template <typename Dataset>
std::vector<Batch> batches_of(
    const Dataset& dataset,
    std::size_t workers,
    DataParallel parallel = {},
    std::int64_t consumed = 0) {
  CyclicSampler sampler(
      {.total_samples = static_cast<std::int64_t>(dataset.size()),
       .consumed_samples = consumed,
       .micro_batch_size = 2,
       .parallel = parallel,
       .number_passes = true});
  Loader loader(
      [&] { return sampler.next(); },
      [&](std::span<const std::int64_t> indices, Batch& batch) {
        collate(dataset, indices, allocate_host, batch);
      },
      {.workers = workers});
  std::vector<Batch> batches;
  while (batches.size() < 12) {
    batches.push_back(*loader.next());
  }
  return batches;
}

template <typename Dataset>
void expect_same_with_workers(
    const Dataset& dataset,
    const std::string& field) {
  const auto one = batches_of(dataset, 0);
  const auto three = batches_of(dataset, 3);
  for (std::size_t i = 0; i < one.size(); ++i) {
    ASSERT_EQ(one[i].indices, three[i].indices);
    ASSERT_EQ(one[i][field].columns, three[i][field].columns);
    const auto bytes = [&](const Batch& batch) {
      return std::span(batch[field].memory.get(), batch[field].bytes());
    };
    ASSERT_TRUE(std::ranges::equal(bytes(one[i]), bytes(three[i])));
  }
  // Two ranks see the batches of one, in turn; and a run goes on where it
  // stopped.
  const auto second_rank = batches_of(dataset, 1, {.rank = 1, .size = 2});
  EXPECT_EQ(second_rank[2].indices, one[5].indices);
  const auto later = batches_of(dataset, 1, {}, one[3].consumed_samples);
  EXPECT_EQ(later[0].indices, one[4].indices);
}

TEST(TokenizedDatasets, AnyNumberOfWorkersMakesTheSameBatches) {
  const TemporaryFolder folder;
  expect_same_with_workers(
      BertDataset(
          golden_sentences(),
          ElementRange{0, 64},
          golden_vocabulary(),
          {.sequence_length = 64, .samples = 1000}),
      "text");
  std::string images;
  for (char i = 0; i < 5; ++i) {
    images += std::string(3073, i);
  }
  expect_same_with_workers(
      Cifar10Dataset(
          folder.write("images.bin", images),
          {.transform = {.crop_padding = 4}}),
      "pixels");
  const auto tokenizer = text::load_tokenizer(
      {.type = "BertWordPieceLowerCase",
       .vocab_file = uncased,
       .add_special_tokens = false});
  const std::vector<std::string_view> lines = {
      "a line",
      "another , longer line",
      "one more line of text .",
      "end"};
  const MlmDataset mlm(lines, *tokenizer, {});
  expect_same_with_workers(mlm, "tokens");
  // Later passes mask other tokens.
  Batch first;
  Batch later;
  const std::vector<std::int64_t> all{0, 1, 2, 3};
  const std::vector<std::int64_t> next{4, 5, 6, 7};
  collate(mlm, all, allocate_host, first);
  collate(mlm, next, allocate_host, later);
  EXPECT_FALSE(
      std::ranges::equal(first["labels"].int64s(), later["labels"].int64s()));
}

} // namespace
} // namespace cairn::data::tokenized_datasets_test
