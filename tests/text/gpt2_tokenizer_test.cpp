#include "text/golden_cases.h"

#include <cairn/base/error.h>
#include <cairn/text/tokenizer.h>

#include <gtest/gtest.h>

#include <random>

namespace cairn::text::gpt2_tokenizer_test {
namespace {

using Ids = std::vector<TokenId>;

TEST(Gpt2Tokenizer, EncodesGoldenCases) {
  auto options = fixtures::gpt2_options();
  const auto special = load_tokenizer(options);
  options.special_tokens_in_text = false;
  const auto plain = load_tokenizer(options);
  options.add_prefix_space = true;
  const auto prefixed = load_tokenizer(options);
  int count = 0;
  for (const auto& entry : fixtures::golden_json("gpt2/cases.json")) {
    const auto text = entry["text"].get<std::string>();
    const auto ids = entry["ids"].get<Ids>();
    EXPECT_EQ(plain->encode(text), ids) << text;
    EXPECT_EQ(plain->decode(ids), text);
    const auto special_ids =
        entry.contains("ids_special") ? entry["ids_special"].get<Ids>() : ids;
    EXPECT_EQ(special->encode(text), special_ids) << text;
    EXPECT_EQ(special->decode(special_ids), text);
    if (entry.contains("ids_prefix_space")) {
      EXPECT_EQ(prefixed->encode(text), entry["ids_prefix_space"].get<Ids>())
          << text;
    }
    ++count;
  }
  EXPECT_EQ(count, 320);
}

TEST(Gpt2Tokenizer, DecodesGoldenCases) {
  const auto tokenizer = load_tokenizer(fixtures::gpt2_options());
  int count = 0;
  for (const auto& entry : fixtures::golden_json("gpt2/decode_cases.json")) {
    std::string hex;
    for (const char c : tokenizer->decode(entry["ids"].get<Ids>())) {
      constexpr char digits[] = "0123456789abcdef";
      hex += digits[static_cast<unsigned char>(c) >> 4];
      hex += digits[static_cast<unsigned char>(c) & 15];
    }
    EXPECT_EQ(hex, entry["bytes_hex"].get<std::string>());
    ++count;
  }
  EXPECT_EQ(count, 60);
}

TEST(Gpt2Tokenizer, KnowsItsIds) {
  const auto tokenizer = load_tokenizer(fixtures::gpt2_options());
  EXPECT_EQ(tokenizer->vocab_size(), 50257U);
  EXPECT_EQ(tokenizer->special().end_of_document, 50256);
  EXPECT_EQ(tokenizer->token(262), "\u0120the");
  EXPECT_EQ(tokenizer->find("\u0120the"), 262);
  EXPECT_EQ(tokenizer->find(" the"), std::nullopt);
  EXPECT_TRUE(tokenizer->is_special(50256));
  EXPECT_FALSE(tokenizer->is_special(262));
  EXPECT_THROW(tokenizer->token(50257), DataError);
  EXPECT_THROW(tokenizer->decode(Ids{-1}), DataError);
}

TEST(Gpt2Tokenizer, AddsSentinels) {
  auto options = fixtures::gpt2_options();
  options.extra_ids = 2;
  const auto tokenizer = load_tokenizer(options);
  EXPECT_EQ(tokenizer->vocab_size(), 50259U);
  EXPECT_EQ(tokenizer->special().sentinels, (Ids{50257, 50258}));
  EXPECT_EQ(tokenizer->encode("a<extra_id_1>"), (Ids{64, 50258}));
  EXPECT_EQ(tokenizer->decode(Ids{64, 50258}), "a<extra_id_1>");
}

/// Bytes of every kind: ASCII, pieces of well-formed characters, noise.
std::string random_bytes(std::mt19937& random) {
  const std::vector<std::string> pieces{
      " ",
      "  ",
      "\n",
      "a",
      "The",
      "'s",
      "'ll",
      "'",
      "12",
      "\xc3\xa9",
      "\xe2\x80\x83",
      "\xf0\x9f\x98\x80",
      "\xe2\x82",
      "\xff",
      "\xc0\x80",
      "\xed\xa0\x80",
      std::string(1, '\0'),
      "<|endoftext|>",
      "\xc2\xa0",
      "."};
  std::string text;
  for (auto left = random() % 40; left > 0; --left) {
    text += random() % 4 == 0 ? std::string(1, static_cast<char>(random()))
                              : pieces[random() % pieces.size()];
  }
  return text;
}

TEST(Gpt2Tokenizer, GivesBackAnyBytes) {
  auto options = fixtures::gpt2_options();
  const auto special = load_tokenizer(options);
  options.special_tokens_in_text = false;
  const auto plain = load_tokenizer(options);
  std::mt19937 random(7);
  const auto encoder = plain->make_encoder();
  for (int i = 0; i < 5000; ++i) {
    const std::string text = random_bytes(random);
    Ids ids;
    encoder->encode(text, ids);
    ASSERT_EQ(plain->decode(ids), text);
    ASSERT_EQ(plain->encode(text), ids) << "without a cache";
    ASSERT_EQ(special->decode(special->encode(text)), text);
  }
}

TEST(Gpt2Tokenizer, TakesLongWordsInGoodTime) {
  const auto tokenizer = load_tokenizer(fixtures::gpt2_options());
  for (const char c : {'a', ' ', '\n', '=', '\xff'}) {
    const std::string text(1 << 20, c);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  // Words of one length are merged by a heap, of another by a plain search.
  std::string letters;
  std::mt19937 random(3);
  for (int i = 0; i < 64; ++i) {
    letters += "abcdefghijklmnopqrstuvwxyz"[random() % 26];
  }
  const auto whole = tokenizer->encode(letters + letters);
  EXPECT_EQ(tokenizer->decode(whole), letters + letters);
}

} // namespace
} // namespace cairn::text::gpt2_tokenizer_test
