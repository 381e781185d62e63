#include <cairn/data/character_text_dataset.h>

#include "data/byte_tokenizer.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <span>
#include <string>

namespace cairn::data::character_text_dataset_test {
namespace {

using fixtures::ByteTokenizer;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class CharacterText : public ::testing::Test {
 protected:
  static std::string play() {
    std::string text;
    for (int i = 0; i < 1000; ++i) {
      text += static_cast<char>(i % 251);
    }
    return text;
  }

  CharacterTextParts open(
      std::string_view text,
      const CharacterTextOptions& options) {
    return open_character_text(
        folder_.write("play.txt", text),
        ByteTokenizer(),
        options);
  }

  cairn::testing::TemporaryFolder folder_;
};

TEST_F(CharacterText, NineTenthsAreForTraining) {
  const auto [train, valid] = open(play(), {.block_size = 8});
  EXPECT_EQ(train.size(), 900);
  EXPECT_EQ(valid.size(), 100);
  EXPECT_EQ(train.tokens().front(), ByteTokenizer::first_byte);
  EXPECT_EQ(valid.tokens().front(), ByteTokenizer::first_byte + 900 % 251);
}

TEST_F(CharacterText, LabelsAreTheTokensOneFurther) {
  const auto [train, valid] = open(play(), {.block_size = 8});
  CharacterTextSample sample;
  std::set<std::int64_t> starts;
  for (std::size_t i = 0; i < 3000; ++i) {
    train.read(i, sample);
    ASSERT_EQ(sample.tokens.size(), 8);
    ASSERT_EQ(sample.labels.size(), 8);
    for (std::size_t k = 0; k < 8; ++k) {
      const std::int64_t next =
          (sample.tokens[k] - ByteTokenizer::first_byte + 1) % 251 +
          ByteTokenizer::first_byte;
      ASSERT_EQ(sample.labels[k], next);
    }
    starts.insert(sample.tokens.front());
  }
  EXPECT_EQ(starts.size(), 251);
}

TEST_F(CharacterText, FirstAndLastWindowAreReached) {
  const auto [train, valid] = open(
      std::string_view("0123456789abcdefghij"),
      {.block_size = 8, .train_share = 0.5});
  ASSERT_EQ(train.size(), 10); // two places: 0 and 1
  CharacterTextSample sample;
  std::set<std::int64_t> starts;
  for (std::size_t i = 0; i < 50; ++i) {
    train.read(i, sample);
    starts.insert(sample.tokens.front() - ByteTokenizer::first_byte);
  }
  EXPECT_EQ(starts, (std::set<std::int64_t>{'0', '1'}));
}

TEST_F(CharacterText, ASampleIsItsSeedAndIndex) {
  const auto [train, valid] = open(play(), {.block_size = 8});
  const auto [again, unused] = open(play(), {.block_size = 8});
  const auto [other, ignored] = open(play(), {.seed = 2, .block_size = 8});
  CharacterTextSample one;
  CharacterTextSample two;
  int changed = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    train.read(i, one);
    again.read(i, two);
    EXPECT_EQ(one.tokens, two.tokens);
    other.read(i, two);
    changed += one.tokens != two.tokens;
  }
  EXPECT_GT(changed, 90);
}

TEST_F(CharacterText, TooLittleTextIsAnError) {
  EXPECT_THAT(
      [&] { open("short", {.block_size = 8}); },
      ThrowsMessage<DataError>(
          AllOf(HasSubstr("play.txt"), HasSubstr("too short"))));
  EXPECT_THAT( // the validation part has 10
      [&] { open(std::string(100, 'a'), {.block_size = 10}); },
      ThrowsMessage<DataError>(HasSubstr("validation")));
  EXPECT_NO_THROW(open(std::string(100, 'a'), {.block_size = 9}));
  EXPECT_THROW(open("", {}), DataError);
  EXPECT_THROW(open(play(), {.block_size = 0}), UsageError);
  EXPECT_THROW(open(play(), {.train_share = 1.0}), UsageError);
  EXPECT_THROW(
      open_character_text(folder_ / "missing", ByteTokenizer(), {}),
      DataError);
}

} // namespace
} // namespace cairn::data::character_text_dataset_test
