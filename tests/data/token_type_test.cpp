#include <cairn/data/indexed_dataset.h>

#include <gtest/gtest.h>

namespace cairn::data::token_type_test {
namespace {

TEST(TokenType, FollowsMegatronsRule) {
  EXPECT_EQ(token_type_for(1), TokenType::uint16);
  EXPECT_EQ(token_type_for(65499), TokenType::uint16);
  EXPECT_EQ(token_type_for(65500), TokenType::int32);
  EXPECT_EQ(token_type_for(250000), TokenType::int32);
}

TEST(TokenType, KnowsSizesAndNames) {
  EXPECT_EQ(size_of(TokenType::uint16), 2U);
  EXPECT_EQ(size_of(TokenType::int8), 1U);
  EXPECT_EQ(size_of(TokenType::float64), 8U);
  EXPECT_EQ(name_of(TokenType::uint16), "uint16");
  EXPECT_EQ(name_of(TokenType::float32), "float32");
}

} // namespace
} // namespace cairn::data::token_type_test
