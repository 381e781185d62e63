#include <cairn/base/error.h>
#include <cairn/text/tokenizer.h>

#include <gtest/gtest.h>

namespace cairn::text::null_tokenizer_test {
namespace {

std::shared_ptr<const Tokenizer> null_tokenizer(std::size_t size) {
  return load_tokenizer({.type = "NullTokenizer", .vocab_size = size});
}

TEST(NullTokenizer, TakesNumbers) {
  const auto tokenizer = null_tokenizer(70000);
  const std::vector<TokenId> ids{12, 0, 69999};
  EXPECT_EQ(tokenizer->encode("12 0 69999"), ids);
  EXPECT_EQ(tokenizer->encode("  12\t0\n69999 "), ids);
  EXPECT_EQ(tokenizer->decode(ids), "12 0 69999");
  EXPECT_TRUE(tokenizer->encode("").empty());
  EXPECT_EQ(tokenizer->vocab_size(), 70000U);
}

TEST(NullTokenizer, EndsDocumentsWithItsLastId) {
  EXPECT_EQ(null_tokenizer(70000)->special().end_of_document, 69999);
  EXPECT_EQ(null_tokenizer(70000)->special().pad, std::nullopt);
  const auto chosen = load_tokenizer(
      {.type = "NullTokenizer",
       .vocab_size = 10,
       .null_eod = 3,
       .null_pad = 4});
  EXPECT_EQ(chosen->special().end_of_document, 3);
  EXPECT_EQ(chosen->special().pad, 4);
}

TEST(NullTokenizer, RefusesWhatIsNoId) {
  const auto tokenizer = null_tokenizer(10);
  EXPECT_THROW(tokenizer->encode("1 two"), DataError);
  EXPECT_THROW(tokenizer->encode("10"), DataError);
  EXPECT_THROW(tokenizer->encode("-1"), DataError);
  EXPECT_THROW(tokenizer->encode("99999999999999999999"), DataError);
  EXPECT_THROW(tokenizer->encode("1.5"), DataError);
  EXPECT_THROW(tokenizer->decode(std::vector<TokenId>{10}), DataError);
  EXPECT_THROW(null_tokenizer(0), ConfigError);
}

} // namespace
} // namespace cairn::text::null_tokenizer_test
