#include "support/temporary_folder.h"
#include "text/golden_cases.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace cairn::text::portions_test {
namespace {

using cairn::testing::TemporaryFolder;
using Ids = std::vector<TokenId>;

/// A text of words, spaces of all kinds, scripts with and without spaces,
/// characters that normalizers change or join, special tokens, and bytes that
/// are no text.
std::string random_text(std::mt19937& random, std::size_t pieces) {
  static const std::vector<std::string> all{
      " ",
      " ",
      " ",
      "  ",
      "\n",
      "\t",
      "a",
      "The",
      "the",
      "story",
      "unbelievable",
      "aaaa",
      "12",
      ".",
      ",",
      "'s",
      "!?",
      "\u4e2d",
      "\u6587\u5b57",
      "\uff0c",
      "\u3000",
      "\u00e9",
      "e\u0301",
      "\u0301",
      "\u00a0",
      "\u200b",
      "\u2581",
      "\ufb01",
      "\uac00\u11a8",
      "\u304b\u3099",
      "\U0001f600",
      "\u00c9",
      "[SEP]",
      "<|endoftext|>",
      "<s>",
      "x-y",
      std::string(1, '\0'),
      "\xff",
      "\xe2\x82",
      "\x80\x80\x80\x80\x80"};
  std::string text;
  for (; pieces > 0; --pieces) {
    text += all[random() % all.size()];
  }
  return text;
}

/// The ids as they are taken away, and the number of times.
Ids in_portions(
    Encoder& encoder,
    std::string_view text,
    std::size_t size,
    int& taken) {
  Ids all;
  Ids ids;
  encoder.encode(
      text,
      ids,
      {.take =
           [&] {
             EXPECT_GE(ids.size(), size);
             all.insert(all.end(), ids.begin(), ids.end());
             ids.clear();
             ++taken;
           },
       .size = size});
  all.insert(all.end(), ids.begin(), ids.end());
  return all;
}

void expect_same_ids(const TokenizerOptions& options, const char* name) {
  const auto tokenizer = load_tokenizer(options);
  const auto encoder = tokenizer->make_encoder();
  std::mt19937 random(17);
  int taken = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string text = random_text(random, random() % 100);
    const std::size_t size = 1 + random() % 40;
    ASSERT_EQ(in_portions(*encoder, text, size, taken), tokenizer->encode(text))
        << name << ", " << size << " at a time: " << text;
  }
  EXPECT_GT(taken, 300) << name;
}

TEST(Portions, ByteLevelBpe) {
  expect_same_ids(fixtures::gpt2_options(), "gpt2");
  auto prefixed = fixtures::gpt2_options();
  prefixed.add_prefix_space = true;
  expect_same_ids(prefixed, "prefixed");
  for (const std::string name : {"llama3", "normalized", "digits"}) {
    expect_same_ids(
        {.model_file = fixtures::golden("json/" + name + ".json")},
        name.c_str());
  }
}

TEST(Portions, WordPiece) {
  for (const std::string name : {"cased", "uncased"}) {
    auto options = fixtures::bert_options(name);
    expect_same_ids(options, name.c_str());
    options.add_special_tokens = true;
    options.never_split = {"x-y", "12."};
    expect_same_ids(options, "with special tokens");
  }
  expect_same_ids({.model_file = fixtures::golden("json/bert.json")}, "json");
}

TEST(Portions, CharactersAndNumbers) {
  const TemporaryFolder folder;
  std::mt19937 random(5);
  const std::string text = "a b\u00e9\u4e2dc\U0001f600";
  const auto characters = load_tokenizer(
      {.type = "CharTokenizer", .vocab_file = folder.write("text.txt", text)});
  int taken = 0;
  EXPECT_EQ(
      in_portions(*characters->make_encoder(), text, 2, taken),
      characters->encode(text));
  EXPECT_EQ(taken, 3);
  const auto numbers =
      load_tokenizer({.type = "NullTokenizer", .vocab_size = 9});
  EXPECT_EQ(
      in_portions(*numbers->make_encoder(), "1 2 3 4 5", 2, taken),
      (Ids{1, 2, 3, 4, 5}));
  EXPECT_EQ(taken, 5);
}

/// The two models with other ways to treat spaces, which are written as
/// protocol buffer fields that come once more: normalizer_spec (3) with
/// add_dummy_prefix (3) and remove_extra_whitespaces (4). Also with a symbol of
/// the user's own, a piece (1) of type (3) 4, that is found before all else.
TEST(Portions, SentencePiece) {
  const TemporaryFolder folder;
  const std::string symbol{
      '\x0a',
      12,
      '\x0a',
      3,
      'y',
      '1',
      '2',
      '\x15',
      0,
      0,
      0,
      0,
      '\x18',
      4};
  for (const std::string kind : {"unigram", "bpe"}) {
    const std::string model = read_file(
        fixtures::golden("sentencepiece/" + kind + ".model"),
        1 << 20);
    for (const char prefix : {'\0', '\1'}) {
      for (const char remove : {'\0', '\1'}) {
        const std::string name = kind + (prefix != 0 ? " prefix" : "") +
            (remove != 0 ? " remove" : "");
        const std::string spec{'\x1a', 4, '\x18', prefix, '\x20', remove};
        expect_same_ids(
            {.model_file = folder.write("own.model", model + symbol + spec)},
            name.c_str());
      }
    }
  }
}

TEST(Portions, SentencePieceRefusesWhatItCannotCut) {
  const TemporaryFolder folder;
  const std::string model =
      read_file(fixtures::golden("sentencepiece/bpe.model"), 1 << 20);
  // trainer_spec (2) with treat_whitespace_as_suffix (24)
  const std::string suffix{'\x12', 3, '\xc0', 1, 1};
  const auto file = folder.write("own.model", model + suffix);
  const auto tokenizer = load_tokenizer({.model_file = file});
  std::string text;
  while (text.size() < 4 << 20) {
    text += "the story ";
  }
  EXPECT_THROW(tokenizer->encode(text), DataError);
  int taken = 0;
  EXPECT_EQ(
      in_portions(*tokenizer->make_encoder(), text.substr(0, 900), 16, taken),
      tokenizer->encode(text.substr(0, 900)));
}

} // namespace
} // namespace cairn::text::portions_test
