#include "support/fuzz.h"
#include "support/temporary_folder.h"
#include "text/golden_cases.h"

#include <cairn/base/error.h>

#include <gtest/gtest.h>

namespace cairn::text::tokenizer_fuzz_test {
namespace {

using cairn::testing::Fuzz;
using cairn::testing::TemporaryFolder;

constexpr int runs = 300;

/// Calls that an accepted tokenizer must survive.
void use(const Tokenizer& tokenizer) {
  const std::string text =
      "Hello WORLD's 12 <s>\u00e9\xff<mask> [CLS]a  \n<|endoftext|>";
  std::vector<TokenId> ids;
  try {
    ids = tokenizer.encode(text);
  } catch (const DataError&) {
    return; // the vocabulary lacks a byte
  }
  for (const TokenId id : ids) {
    EXPECT_LT(static_cast<std::size_t>(id), tokenizer.vocab_size());
  }
  tokenizer.decode(ids);
  const auto& special = tokenizer.special();
  for (const auto& id : {special.end, special.pad, special.mask}) {
    EXPECT_LT(
        static_cast<std::int64_t>(id.value_or(0)),
        static_cast<std::int64_t>(tokenizer.vocab_size()) + !id);
  }
}

const std::vector<std::string> json_pieces{
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "null",
    "-1",
    "1e9",
    "99999999999",
    "\"\"",
    "\"type\"",
    "\"Sequence\"",
    "\"a\":0",
    "\\ud800",
    "true",
    "\"\\u0120\""};

const std::string small_vocab =
    R"({"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"H":4,"e":5,"l":6,"o":7,)"
    R"("He":8,"ll":9,"\u0120":10,"<mask>":11,"lo":12})";
const std::string small_merges = "#version: 0.2\nH e\nl l\nl o\n";

TEST(TokenizerFuzz, VocabJson) {
  const TemporaryFolder folder;
  const auto vocab = folder.path() / "vocab.json";
  const auto merges = folder.path() / "merges.txt";
  folder.write(merges.filename().string(), "H e\n");
  cairn::testing::fuzz(
      {.seeds = {small_vocab}, .pieces = json_pieces, .runs = runs},
      [&](const std::string& text) {
        folder.write(vocab.filename().string(), text);
        use(*load_tokenizer({.vocab_file = vocab, .merge_file = merges}));
        use(*load_tokenizer(
            {.type = "RobertaTokenizer",
             .vocab_file = vocab,
             .merge_file = merges}));
      });
}

TEST(TokenizerFuzz, MergesTxt) {
  const TemporaryFolder folder;
  const auto vocab = folder.path() / "vocab.json";
  const auto merges = folder.path() / "merges.txt";
  folder.write(vocab.filename().string(), small_vocab);
  cairn::testing::fuzz(
      {.seeds = {small_merges},
       .pieces = {"H", "e", " ", "\n", "\r", "#version", "ll", "  "},
       .runs = runs},
      [&](const std::string& text) {
        folder.write(merges.filename().string(), text);
        use(*load_tokenizer({.vocab_file = vocab, .merge_file = merges}));
      });
}

TEST(TokenizerFuzz, VocabTxt) {
  const TemporaryFolder folder;
  const auto vocab = folder.path() / "vocab.txt";
  cairn::testing::fuzz(
      {.seeds = {"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nw\n##orld\n##l\n"},
       .pieces = {"[", "##", "\n", "\r\n", "\n\n", "\xff"},
       .runs = runs},
      [&](const std::string& text) {
        folder.write(vocab.filename().string(), text);
        use(*load_tokenizer(
            {.type = "BertWordPieceLowerCase", .vocab_file = vocab}));
      });
}

TEST(TokenizerFuzz, TokenizerJson) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "tokenizer.json";
  std::vector<std::string> seeds;
  for (const char* name : {"llama3", "normalized", "digits", "bert"}) {
    auto json = fixtures::golden_json(std::string("json/") + name + ".json");
    // The file is small, so that damage hits all parts alike.
    if (json["model"].contains("merges")) {
      json["model"]["merges"].erase(
          json["model"]["merges"].begin() + 3,
          json["model"]["merges"].end());
    }
    std::vector<std::string> drop;
    for (const auto& [token, id] : json["model"]["vocab"].items()) {
      if (id.get<int>() >= 290) {
        drop.push_back(token);
      }
    }
    for (const auto& token : drop) {
      json["model"]["vocab"].erase(token);
    }
    for (auto& token : json["added_tokens"]) {
      token["id"] = std::min(token["id"].get<int>(), 300);
    }
    seeds.push_back(json.dump());
  }
  cairn::testing::fuzz(
      {.seeds = seeds, .pieces = json_pieces, .runs = runs},
      [&](const std::string& text) {
        folder.write(file.filename().string(), text);
        use(*load_tokenizer({.model_file = file}));
      });
}

TEST(TokenizerFuzz, CharJson) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "char.json";
  cairn::testing::fuzz(
      {.seeds = {R"({"type": "CharTokenizer", "characters": "\n !abc\u00e9"})"},
       .pieces = json_pieces,
       .runs = runs},
      [&](const std::string& text) {
        folder.write(file.filename().string(), text);
        use(*load_tokenizer({.vocab_file = file}));
      });
}

} // namespace
} // namespace cairn::text::tokenizer_fuzz_test
