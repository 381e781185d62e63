#include "support/temporary_folder.h"
#include "text/golden_cases.h"
#include "text/schemes/char_vocabulary.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::text::load_tokenizer_test {
namespace {

using Ids = std::vector<TokenId>;
using cairn::testing::TemporaryFolder;
using ::testing::HasSubstr;

template <class Kind>
std::string complaint(const TokenizerOptions& options) {
  try {
    load_tokenizer(options);
  } catch (const Kind& error) {
    return error.what();
  }
  return "";
}

TEST(LoadTokenizer, TellsTheTypeFromTheFiles) {
  auto options = fixtures::gpt2_options();
  options.type.clear();
  EXPECT_EQ(load_tokenizer(options)->vocab_size(), 50257U);
  for (const std::string name : {"uncased", "cased"}) {
    auto bert = fixtures::bert_options(name);
    const auto named = load_tokenizer(bert);
    bert.type.clear();
    EXPECT_EQ(
        load_tokenizer(bert)->encode("The Cat"),
        named->encode("The Cat"));
  }
  EXPECT_EQ(load_tokenizer({.vocab_size = 9})->encode("8"), Ids{8});
  EXPECT_EQ(
      load_tokenizer({.model_file = fixtures::golden("json/bert.json")})
          ->special()
          .classify,
      2);
  EXPECT_EQ(
      load_tokenizer(
          {.model_file = fixtures::golden("sentencepiece/bpe.model")})
          ->vocab_size(),
      400U);
}

TEST(LoadTokenizer, TakesFoldersOfHuggingFace) {
  const TemporaryFolder folder;
  std::filesystem::copy(
      fixtures::golden("gpt2/vocab.json"),
      folder.path() / "vocab.json");
  std::filesystem::copy(
      fixtures::golden("gpt2/merges.txt"),
      folder.path() / "merges.txt");
  const auto tokenizer =
      load_tokenizer({.type = "GPT2BPETokenizer", .model_file = folder.path()});
  EXPECT_EQ(tokenizer->encode(" the"), Ids{262});
  EXPECT_EQ(
      load_tokenizer({.model_file = folder.path()})->encode(" the"),
      Ids{262});
  std::filesystem::copy(
      fixtures::golden("sentencepiece/bpe.model"),
      folder.path() / "tokenizer.model");
  EXPECT_EQ(load_tokenizer({.model_file = folder.path()})->vocab_size(), 400U);
  std::filesystem::copy(
      fixtures::golden("json/bert.json"),
      folder.path() / "tokenizer.json");
  EXPECT_EQ(load_tokenizer({.model_file = folder.path()})->special().mask, 4);
  EXPECT_EQ(
      load_tokenizer({.type = "Llama2Tokenizer", .model_file = folder.path()})
          ->vocab_size(),
      400U);
  const TemporaryFolder empty;
  EXPECT_THAT(
      complaint<DataError>({.model_file = empty.path()}),
      HasSubstr("no tokenizer in this folder"));
}

TEST(LoadTokenizer, TakesNumbersLongerThan64Bits) {
  const TemporaryFolder folder;
  std::filesystem::copy(
      fixtures::golden("json/bert.json"),
      folder.path() / "tokenizer.json");
  const auto config = folder.path() / "tokenizer_config.json";
  // What transformers writes for "no greatest length".
  write_file_atomically(
      config,
      "{\"model_max_length\": 1000000000000000019884624838656,\n"
      " \"less\": [-12345678901234567890123, 0.12345678901234567890123],\n"
      " \"mask_token\": \"1234567890123456789012345\","
      " \"cls_token\": \"\\\"1\", \"sep_token\": \"[SEP]\"}");
  const auto special = load_tokenizer({.model_file = folder.path()})->special();
  EXPECT_EQ(special.separator, 3);
  write_file_atomically(
      config,
      "{\"model_max_length\":\n1000000000000000019884624838656x}");
  EXPECT_THAT(
      complaint<DataError>({.model_file = folder.path()}),
      HasSubstr("tokenizer_config.json:2"));
}

TEST(LoadTokenizer, SaysWhatIsWrong) {
  EXPECT_THAT(
      complaint<ConfigError>({.type = "GPT2BPETokeniser"}),
      HasSubstr("did you mean GPT2BPETokenizer?"));
  EXPECT_THAT(complaint<ConfigError>({}), HasSubstr("no tokenizer is given"));
  EXPECT_THAT(
      complaint<ConfigError>({.type = "BertWordPieceCase"}),
      HasSubstr("--vocab-file"));
  EXPECT_THAT(
      complaint<ConfigError>(
          {.type = "GPT2BPETokenizer",
           .vocab_file = fixtures::golden("gpt2/vocab.json")}),
      HasSubstr("--merge-file"));
  EXPECT_THAT(
      complaint<ConfigError>(
          {.vocab_file = fixtures::golden("gpt2/vocab.json")}),
      HasSubstr("alone"));
  EXPECT_THAT(
      complaint<DataError>({.model_file = "/nowhere/tokenizer.json"}),
      HasSubstr("/nowhere/tokenizer.json"));
  EXPECT_THAT(
      complaint<DataError>(
          {.type = "SentencePieceTokenizer",
           .model_file = fixtures::golden("gpt2/merges.txt")}),
      HasSubstr("not a SentencePiece model"));
}

TEST(LoadTokenizer, NamesTheLineThatIsWrong) {
  const TemporaryFolder folder;
  const auto vocab = folder.path() / "vocab.json";
  const auto merges = folder.path() / "merges.txt";
  const auto with = [&](const char* vocab_text, const char* merges_text) {
    write_file_atomically(vocab, vocab_text);
    write_file_atomically(merges, merges_text);
    return complaint<DataError>({.vocab_file = vocab, .merge_file = merges});
  };
  const char* good = "{\"a\": 0, \"b\": 1, \"ab\": 2}";
  EXPECT_EQ(with(good, "#version: 0.2\na b\n"), "");
  EXPECT_THAT(with(good, "#version: 0.2\na c\n"), HasSubstr("merges.txt:2"));
  EXPECT_THAT(with(good, "a b\nab\n"), HasSubstr("merges.txt:2"));
  EXPECT_THAT(with(good, "a b c\n"), HasSubstr("merges.txt:1"));
  EXPECT_THAT(with("{\"a\": 0,\n\"b\" 1}", ""), HasSubstr("vocab.json:2"));
  EXPECT_THAT(with("[]", ""), HasSubstr("not a JSON object"));
  EXPECT_THAT(with("{}", ""), HasSubstr("empty"));
  EXPECT_THAT(with("{\"a\": -1}", ""), HasSubstr("whole number"));
  EXPECT_THAT(with("{\"a\": 0, \"a\": 1}", ""), HasSubstr("two ids"));
}

/// A vocabulary laid out as roberta-base's, with GPT-2's tokens and merges.
TEST(RobertaTokenizer, HasItsOwnIds) {
  const TemporaryFolder folder;
  nlohmann::json vocab;
  const auto add = [&](const std::string& token) {
    const auto id = vocab.size();
    vocab[token] = id;
  };
  for (const char* token : {"<s>", "<pad>", "</s>", "<unk>"}) {
    add(token);
  }
  const auto gpt2 = fixtures::golden_json("gpt2/vocab.json");
  for (const auto& [token, id] : gpt2.items()) {
    add(token);
  }
  for (const char* token : {"madeup0", "madeup1", "madeup2", "<mask>"}) {
    add(token);
  }
  const auto file = folder.path() / "vocab.json";
  write_file_atomically(file, vocab.dump());
  TokenizerOptions options{
      .type = "RobertaTokenizer",
      .vocab_file = file,
      .merge_file = fixtures::golden("gpt2/merges.txt")};
  const auto tokenizer = load_tokenizer(options);
  const SpecialIds& special = tokenizer->special();
  EXPECT_EQ(special.begin, 0);
  EXPECT_EQ(special.pad, 1);
  EXPECT_EQ(special.end, 2);
  EXPECT_EQ(special.mask, 50264);
  const auto id = [&](const char* token) { return *tokenizer->find(token); };
  EXPECT_EQ(
      tokenizer->encode("the <mask> sat"),
      (Ids{0, id("the"), 50264, id("\u0120sat"), 2}));
  options.add_special_tokens = false;
  EXPECT_EQ(load_tokenizer(options)->encode("the"), Ids{id("the")});
  options.vocab_file = fixtures::golden("gpt2/vocab.json");
  EXPECT_THAT(complaint<DataError>(options), HasSubstr("<s>"));
}

TEST(CharTokenizer, HasAnIdPerCharacter) {
  const TemporaryFolder folder;
  const auto text = folder.path() / "input.txt";
  write_file_atomically(text, "hello\nw\u00f6rld");
  const auto tokenizer =
      load_tokenizer({.type = "CharTokenizer", .vocab_file = text});
  EXPECT_EQ(tokenizer->vocab_size(), 9U); // \n d e h l o r w ö
  EXPECT_EQ(tokenizer->encode("hello"), (Ids{3, 2, 4, 4, 5}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("w\u00f6rld")), "w\u00f6rld");
  EXPECT_THROW(tokenizer->encode("x"), DataError);
  EXPECT_THROW(tokenizer->encode("h\xff"), DataError);
  EXPECT_THROW(tokenizer->decode(Ids{99}), DataError);
}

TEST(CharTokenizer, IsSavedAndLoaded) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "char.json";
  CharVocabulary::of("to be, or not\n\"to\" b\u00e9", "play").save(file);
  const auto tokenizer = load_tokenizer({.vocab_file = file});
  EXPECT_EQ(tokenizer->token(0), "\n");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("bet\u00e9")), "bet\u00e9");
  EXPECT_THROW(CharVocabulary::of("", "empty"), DataError);
  EXPECT_THROW(CharVocabulary::of("a\xff", "bytes"), DataError);
  write_file_atomically(
      file,
      R"({"type": "CharTokenizer", "characters": "ba"})");
  EXPECT_THROW(CharVocabulary::load(file), DataError);
}

TEST(SentencePieceTokenizer, MatchesGoldenCases) {
  for (const std::string kind : {"unigram", "bpe"}) {
    TokenizerOptions options{
        .type = "SentencePieceTokenizer",
        .model_file = fixtures::golden("sentencepiece/" + kind + ".model"),
        .extra_ids = 2};
    const auto tokenizer = load_tokenizer(options);
    int count = 0;
    for (const auto& entry :
         fixtures::golden_json("sentencepiece/" + kind + "-cases.json")) {
      const auto text = entry["text"].get<std::string>();
      const auto ids = entry["ids"].get<Ids>();
      EXPECT_EQ(tokenizer->encode(text), ids) << text;
      EXPECT_EQ(tokenizer->decode(ids), entry["decoded"].get<std::string>());
      ++count;
    }
    EXPECT_GT(count, 50);
    EXPECT_EQ(tokenizer->special().begin, 1);
    EXPECT_EQ(tokenizer->special().end_of_document, 2);
    EXPECT_EQ(tokenizer->special().pad, 3);
    EXPECT_EQ(tokenizer->vocab_size(), 402U);
    EXPECT_EQ(tokenizer->special().sentinels, (Ids{400, 401}));
    EXPECT_EQ(tokenizer->find("<extra_id_1>"), 401);
    EXPECT_EQ(tokenizer->find("no such piece"), std::nullopt);
    EXPECT_THROW(tokenizer->decode(Ids{402}), DataError);
  }
}

} // namespace
} // namespace cairn::text::load_tokenizer_test
