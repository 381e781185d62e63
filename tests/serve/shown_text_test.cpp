#include "serve/shown_text.h"

#include <cairn/text/tokenizer.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace cairn::serve::shown_text_test {
namespace {

std::shared_ptr<const text::Tokenizer> letters() {
  // Byte-level, so that a character may be several tokens.
  return text::load_tokenizer(
      {.vocab_file = std::filesystem::path(CAIRN_GOLDEN_DIR) /
           "tokenizers/gpt2/vocab.json",
       .merge_file = std::filesystem::path(CAIRN_GOLDEN_DIR) /
           "tokenizers/gpt2/merges.txt"});
}

/// Everything that is shown of the tokens of `text`, in pieces.
std::vector<std::string> shown(
    const std::string& prompt,
    const std::string& text,
    std::vector<std::string> stops = {}) {
  const auto tokenizer = letters();
  const auto ids = [&](const std::string& words) {
    const auto found = tokenizer->encode(words);
    return std::vector<std::int64_t>(found.begin(), found.end());
  };
  ShownText growing(*tokenizer, ids(prompt), std::move(stops));
  std::vector<std::string> pieces;
  for (const std::int64_t id : ids(text)) {
    pieces.push_back(growing.add(id));
  }
  pieces.push_back(growing.finish());
  return pieces;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string all;
  for (const std::string& piece : pieces) {
    all += piece;
  }
  return all;
}

TEST(ShownText, ShowsWholeCharacters) {
  const auto pieces = shown("a", " caf\xc3\xa9 \xe2\x82\xac\xf0\x9f\x98\x80!");
  EXPECT_EQ(joined(pieces), " caf\xc3\xa9 \xe2\x82\xac\xf0\x9f\x98\x80!");
  for (const std::string& piece : pieces) {
    EXPECT_EQ(piece.find("\xef\xbf\xbd"), piece.npos) << "no half character";
  }
  EXPECT_EQ(
      joined(shown("a", "b\xf0\x9f\x98")),
      "b\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")
      << "at the end what there is";
}

TEST(ShownText, StopsBeforeAStopString) {
  EXPECT_EQ(joined(shown("a", " one two three", {"two"})), " one ");
  EXPECT_EQ(joined(shown("a", " one two three", {"x", "e t"})), " on");
  EXPECT_EQ(joined(shown("a", " one", {"one two"})), " one") << "not yet one";
  const auto pieces = shown("a", " one two three", {"two"});
  std::string so_far;
  for (const std::string& piece : pieces) {
    so_far += piece;
    EXPECT_EQ(so_far.find('t'), so_far.npos) << "nothing of it is shown";
  }
}

} // namespace
} // namespace cairn::serve::shown_text_test
