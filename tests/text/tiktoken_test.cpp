#include "support/error_text.h"
#include "support/fuzz.h"
#include "support/temporary_folder.h"
#include "text/golden_cases.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/text/tokenizer.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::text::tiktoken_test {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<TokenId>;

TokenizerOptions golden_options(const std::string& pattern = "v2") {
  const nlohmann::json cases = fixtures::golden_json("tiktoken/cases.json");
  return {
      .type = "TikTokenizer",
      .model_file = fixtures::golden("tiktoken/vocab.json"),
      .tiktoken_pattern = pattern,
      .tiktoken_special_count = cases.at("special"),
      .tiktoken_special_tokens = cases.at("names")};
}

TEST(TikTokenizer, GivesTheIdsOfTiktoken) {
  const nlohmann::json cases = fixtures::golden_json("tiktoken/cases.json");
  for (const char* pattern : {"v1", "v2"}) {
    TokenizerOptions options = golden_options(pattern);
    const auto tokenizer = load_tokenizer(options);
    options.special_tokens_in_text = false;
    const auto plain = load_tokenizer(options);
    EXPECT_EQ(tokenizer->vocab_size(), 2520U);
    EXPECT_EQ(cases.at(pattern).size(), 128U);
    for (const auto& entry : cases.at(pattern)) {
      const auto text = entry.at("text").get<std::string>();
      const auto ids = entry.at("ids").get<Ids>();
      EXPECT_EQ(tokenizer->encode(text), ids) << pattern << ": " << text;
      EXPECT_EQ(tokenizer->decode(ids), text);
      EXPECT_EQ(plain->encode(text), entry.at("ids_plain").get<Ids>()) << text;
    }
  }
}

TEST(TikTokenizer, HasMegatronsSpecialTokens) {
  TokenizerOptions options = golden_options();
  options.type.clear(); // a list is no other tokenizer's file
  options.tiktoken_special_tokens.clear();
  const auto tokenizer = load_tokenizer(options);
  const SpecialIds& special = tokenizer->special();
  EXPECT_EQ(special.unknown, 0);
  EXPECT_EQ(special.begin, 1);
  EXPECT_EQ(special.end, 2);
  EXPECT_EQ(special.end_of_document, 2);
  EXPECT_EQ(special.mask, 3);
  EXPECT_EQ(special.pad, 4);
  EXPECT_EQ(special.classify, 5);
  EXPECT_EQ(special.separator, 6);
  EXPECT_EQ(tokenizer->token(7), "<SPECIAL_7>");
  EXPECT_TRUE(tokenizer->is_special(19));
  EXPECT_FALSE(tokenizer->is_special(20));
}

TEST(TikTokenizer, TakesTheFirstTokensOnly) {
  TokenizerOptions options = golden_options();
  options.vocab_size = 20 + 256;
  const auto bytes = load_tokenizer(options);
  EXPECT_EQ(bytes->vocab_size(), 276U);
  EXPECT_EQ(bytes->encode("ab"), (Ids{20 + 'a', 20 + 'b'}));
  options.vocab_size = 275;
  EXPECT_THAT(
      error_text<ConfigError>([&] { load_tokenizer(options); }),
      HasSubstr("--vocab-size"));
  options.vocab_size = 2521;
  EXPECT_THAT(
      error_text<ConfigError>([&] { load_tokenizer(options); }),
      HasSubstr("give 276 to 2520"));
}

TEST(TikTokenizer, RefusesOptionsThatDoNotFit) {
  const auto error = [](const auto& change) {
    TokenizerOptions options = golden_options();
    change(options);
    return error_text<ConfigError>([&] { load_tokenizer(options); });
  };
  using O = TokenizerOptions;
  EXPECT_THAT(
      error([](O& o) { o.tiktoken_pattern = "v3"; }),
      HasSubstr("give v1 or v2"));
  EXPECT_THAT(
      error([](O& o) { o.tiktoken_special_tokens = {"<unk>"}; }),
      HasSubstr("<s> is not among the special tokens"));
  EXPECT_THAT(
      error([](O& o) { o.tiktoken_special_count = 7; }),
      HasSubstr("7 with 8 names"));
}

/// A vocabulary of the bytes, with more entries behind them.
std::string small_vocabulary(const std::string& more) {
  std::string text = "[";
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < 256; ++i) {
    text += fmt::format(
        R"({{"rank": {}, "token_bytes": "{}{}==", "token_str": null}},)",
        i,
        letters[i >> 2],
        letters[i << 4 & 63]);
  }
  text += more;
  text += "]";
  return text;
}

TEST(TikTokenizer, RefusesBrokenFiles) {
  const testing::TemporaryFolder folder;
  const auto error = [&](const std::string& more) {
    folder.write("v.json", small_vocabulary(more));
    return error_text<DataError>([&] {
      load_tokenizer({.type = "TikTokenizer", .model_file = folder / "v.json"});
    });
  };
  EXPECT_THAT(
      error(R"({"rank": 257, "token_bytes": "YWI="})"),
      HasSubstr("entry 256 has another rank"));
  EXPECT_THAT(
      error(R"({"rank": 256, "token_bytes": "YW!="})"),
      HasSubstr("the token of rank 256 is not in base64"));
  EXPECT_THAT(
      error(R"({"rank": 256, "token_bytes": "YQ=="})"),
      HasSubstr("v.json"));
}

TEST(TikTokenizer, Fuzz) {
  const testing::TemporaryFolder folder;
  const std::string valid =
      small_vocabulary(R"({"rank": 256, "token_bytes": "YWI="})");
  testing::fuzz(
      {.seeds = {valid},
       .pieces = {"[", "]", "{", "}", "==", "\"rank\"", "-1", "YWI=", "null"},
       .runs = 200},
      [&](const std::string& text) {
        folder.write("v.json", text);
        const auto tokenizer = load_tokenizer(
            {.type = "TikTokenizer", .model_file = folder / "v.json"});
        tokenizer->decode(tokenizer->encode("abc \xff<s> aab"));
      });
}

} // namespace
} // namespace cairn::text::tiktoken_test
