#include "text/golden_cases.h"
#include "text/internal/decode_text.h"
#include "text/schemes/wordpiece/pair_encoding.h"

#include <cairn/base/error.h>
#include <cairn/text/tokenizer.h>

#include <gtest/gtest.h>

namespace cairn::text::bert_tokenizer_test {
namespace {

using Ids = std::vector<TokenId>;

class BertGolden : public ::testing::TestWithParam<std::string> {
 protected:
  nlohmann::json cases(const std::string& kind) const {
    return fixtures::golden_json("bert/" + kind + "-" + GetParam() + ".json");
  }
  TokenizerOptions options() const {
    return fixtures::bert_options(GetParam());
  }
};

INSTANTIATE_TEST_SUITE_P(
    Case,
    BertGolden,
    ::testing::Values("uncased", "cased"),
    [](const auto& info) { return info.param; });

TEST_P(BertGolden, Encodes) {
  auto with = options();
  const auto plain = load_tokenizer(with);
  with.add_special_tokens = true;
  const auto around = load_tokenizer(with);
  int count = 0;
  for (const auto& entry : cases("cases")) {
    const auto text = entry["text"].get<std::string>();
    auto ids = entry["ids"].get<Ids>();
    EXPECT_EQ(plain->encode(text), ids) << text;
    ids.insert(ids.begin(), *around->special().classify);
    ids.push_back(*around->special().separator);
    EXPECT_EQ(around->encode(text), ids) << text;
    ++count;
  }
  EXPECT_EQ(count, 320);
}

/// Implementations differ: Hugging Face's fast one (`ids`) is the default;
/// options choose Google's limit of a word and its blindness for special
/// tokens.
TEST_P(BertGolden, FollowsTheFastImplementation) {
  const auto fast = load_tokenizer(options());
  auto as_google = options();
  as_google.max_word_length = 200;
  as_google.special_tokens_in_text = false;
  const auto google = load_tokenizer(as_google);
  int alike = 0;
  for (const auto& entry : cases("disagreements")) {
    const auto text = entry["text"].get<std::string>();
    EXPECT_EQ(fast->encode(text), entry["ids"].get<Ids>()) << text;
    if (entry.contains("google")) {
      alike += google->encode(text) == entry["google"].get<Ids>();
    }
  }
  // The remaining differences from Google's are rare characters.
  EXPECT_GE(alike, 4);
}

TEST_P(BertGolden, EncodesPairs) {
  const auto tokenizer = load_tokenizer(options());
  int count = 0;
  for (const auto& entry : cases("pairs")) {
    const auto a = tokenizer->encode(entry["a"].get<std::string>());
    const auto b = tokenizer->encode(entry["b"].get<std::string>());
    const auto whole = encode_pair(*tokenizer, a, b);
    EXPECT_EQ(whole.ids, entry["input_ids"].get<Ids>());
    EXPECT_EQ(whole.token_types, entry["token_type_ids"].get<Ids>());
    EXPECT_EQ(whole.attention_mask, Ids(whole.ids.size(), 1));
    const auto cut =
        encode_pair(*tokenizer, a, b, {.max_length = 32, .pad = true});
    EXPECT_EQ(cut.ids, entry["max32_input_ids"].get<Ids>());
    EXPECT_EQ(cut.token_types, entry["max32_token_type_ids"].get<Ids>());
    EXPECT_EQ(cut.attention_mask, entry["max32_attention_mask"].get<Ids>());
    ++count;
  }
  EXPECT_GE(count, 20);
}

TEST_P(BertGolden, Decodes) {
  const auto tokenizer = load_tokenizer(options());
  int count = 0;
  for (const auto& entry : cases("decode")) {
    const auto ids = entry["ids"].get<Ids>();
    std::vector<std::string> tokens;
    for (const TokenId id : ids) {
      tokens.push_back(tokenizer->token(id));
    }
    EXPECT_EQ(tokens, entry["tokens"].get<std::vector<std::string>>());
    const auto text = tokenizer->decode(ids);
    EXPECT_EQ(text, entry["text"].get<std::string>());
    EXPECT_EQ(clean_up_spaces(text), entry["text_cleaned"].get<std::string>());
    EXPECT_EQ(
        tokenizer->decode(without_special(*tokenizer, ids)),
        entry["text_skip_special"].get<std::string>());
    ++count;
  }
  EXPECT_EQ(count, 30);
}

TEST_P(BertGolden, NeverSplits) {
  for (const auto& entry : cases("never_split")) {
    auto with = options();
    with.never_split = entry["never_split"].get<std::vector<std::string>>();
    const auto tokenizer = load_tokenizer(with);
    auto expected = entry["tokens"].get<std::vector<std::string>>();
    for (auto& token : expected) {
      // The word is kept whole, and unknown to the vocabulary as a whole.
      token = tokenizer->find(token) ? token : "[UNK]";
    }
    std::vector<std::string> tokens;
    for (const TokenId id :
         tokenizer->encode(entry["text"].get<std::string>())) {
      tokens.push_back(tokenizer->token(id));
    }
    EXPECT_EQ(tokens, expected);
  }
}

TEST(BertTokenizer, KnowsItsIds) {
  const auto tokenizer = load_tokenizer(fixtures::bert_options("uncased"));
  EXPECT_EQ(tokenizer->vocab_size(), 30522U);
  const SpecialIds& special = tokenizer->special();
  EXPECT_EQ(special.pad, 0);
  EXPECT_EQ(special.unknown, 100);
  EXPECT_EQ(special.classify, 101);
  EXPECT_EQ(special.separator, 102);
  EXPECT_EQ(special.mask, 103);
  EXPECT_TRUE(special.sentinels.empty());
  // The cased class of Megatron-LM always has a hundred sentinels.
  const auto cased = load_tokenizer(fixtures::bert_options("cased"));
  EXPECT_EQ(cased->special().sentinels.size(), 100U);
  EXPECT_EQ(cased->vocab_size(), 4100U);
}

TEST(BertTokenizer, DecodesWithoutSpacesBeforePunctuation) {
  const auto tokenizer = load_tokenizer(fixtures::bert_options("uncased"));
  EXPECT_EQ(
      tokenizer->decode(tokenizer->encode("Hello, World! It works.")),
      "hello, world! it works.");
  EXPECT_EQ(clean_up_spaces("I do n't , we 're ."), "I don't, we're.");
}

TEST(BertTokenizer, TakesAnyBytes) {
  const auto tokenizer = load_tokenizer(fixtures::bert_options("uncased"));
  EXPECT_EQ(
      tokenizer->encode("hel\xfflo\xc3 world"),
      tokenizer->encode("hello world"));
  EXPECT_TRUE(tokenizer->encode("\xff\xfe\x80").empty());
}

TEST(BertTokenizer, RefusesWhatIsNoVocabulary) {
  auto options = fixtures::bert_options("uncased");
  options.vocab_file = fixtures::golden("gpt2/merges.txt");
  EXPECT_THROW(load_tokenizer(options), DataError);
  const auto tokenizer = load_tokenizer(fixtures::bert_options("uncased"));
  EXPECT_THROW(
      encode_pair(*tokenizer, Ids{}, Ids{}, {.max_length = 2}),
      ConfigError);
}

} // namespace
} // namespace cairn::text::bert_tokenizer_test
