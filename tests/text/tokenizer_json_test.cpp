#include "support/temporary_folder.h"
#include "text/golden_cases.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::text::tokenizer_json_test {
namespace {

using Ids = std::vector<TokenId>;
using cairn::testing::TemporaryFolder;

TokenizerOptions options(const std::string& name) {
  return {
      .type = "HuggingFaceTokenizer",
      .model_file = fixtures::golden("json/" + name + ".json")};
}

class TokenizerJson : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(
    File,
    TokenizerJson,
    ::testing::Values("llama3", "normalized", "digits", "bert"),
    [](const auto& info) { return info.param; });

TEST_P(TokenizerJson, MatchesGoldenCases) {
  auto with = options(GetParam());
  const auto whole = load_tokenizer(with);
  with.add_special_tokens = false;
  const auto bare = load_tokenizer(with);
  int count = 0;
  for (const auto& entry :
       fixtures::golden_json("json/" + GetParam() + "-cases.json")) {
    const auto text = entry["text"].get<std::string>();
    const auto ids = entry["ids"].get<Ids>();
    EXPECT_EQ(whole->encode(text), ids) << text;
    EXPECT_EQ(bare->encode(text), entry["ids_bare"].get<Ids>()) << text;
    EXPECT_EQ(whole->decode(ids), entry["decoded"].get<std::string>()) << text;
    ++count;
  }
  EXPECT_GT(count, 250);
}

TEST(TokenizerJsonFile, GivesBackAnyBytes) {
  const auto tokenizer = load_tokenizer(options("llama3"));
  const std::string text = "a\xff\xfe b\xc3 \xe2\x82 c\n\n\xf0\x9f";
  const auto ids = tokenizer->encode(text);
  EXPECT_EQ(tokenizer->decode(ids), "<|begin_of_text|>" + text);
}

TEST(TokenizerJsonFile, TakesLongTextsInGoodTime) {
  auto with = options("llama3");
  with.add_special_tokens = false;
  const auto tokenizer = load_tokenizer(with);
  for (const std::string part : {"a", " ", "\n", "\xff", ".", "\u4e2d", "1"}) {
    std::string text;
    while (text.size() < 1 << 19) {
      text += part;
    }
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text + "x")), text + "x");
  }
}

TEST(TokenizerJsonFile, TellsRolesFromNeighbours) {
  EXPECT_EQ(load_tokenizer(options("bert"))->special().mask, 4);
  EXPECT_EQ(load_tokenizer(options("bert"))->special().end_of_document, 3);
  const TemporaryFolder folder;
  std::filesystem::copy(
      fixtures::golden("json/llama3.json"),
      folder.path() / "tokenizer.json");
  TokenizerOptions in_folder{.model_file = folder.path()};
  EXPECT_EQ(load_tokenizer(in_folder)->special().end_of_document, 1);
  write_file_atomically(
      folder.path() / "tokenizer_config.json",
      R"({"eos_token": {"content": "<|tool|>"}, "pad_token": null})");
  const auto tokenizer = load_tokenizer(in_folder);
  EXPECT_EQ(tokenizer->special().end_of_document, tokenizer->find("<|tool|>"));
}

TEST(TokenizerJsonFile, TreatsSpecialTokensAsTextWhenAsked) {
  auto with = options("llama3");
  with.add_special_tokens = false;
  with.special_tokens_in_text = false;
  const auto tokenizer = load_tokenizer(with);
  const std::string text = "hi<|end_of_text|>";
  const auto ids = tokenizer->encode(text);
  EXPECT_THAT(ids, ::testing::Not(::testing::Contains(1)));
  EXPECT_EQ(tokenizer->decode(ids), text);
  // Tokens that are not special are still found.
  EXPECT_EQ(tokenizer->encode("<|tool|>"), Ids{*tokenizer->find("<|tool|>")});
}

std::string complaint(nlohmann::json json) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "tokenizer.json";
  write_file_atomically(file, json.dump());
  try {
    load_tokenizer({.model_file = file});
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(TokenizerJsonFile, RefusesByNameWhatItDoesNotHonour) {
  using ::testing::HasSubstr;
  const auto good = fixtures::golden_json("json/llama3.json");
  EXPECT_EQ(complaint(good), "");
  const auto with = [&](const char* pointer, nlohmann::json value) {
    auto json = good;
    json[nlohmann::json::json_pointer(pointer)] = std::move(value);
    return complaint(json);
  };
  EXPECT_THAT(
      with("/normalizer", {{"type", "Precompiled"}}),
      HasSubstr("normalizer Precompiled"));
  EXPECT_THAT(
      with("/pre_tokenizer", {{"type", "Metaspace"}}),
      HasSubstr("pre-tokenizer Metaspace"));
  EXPECT_THAT(
      with("/pre_tokenizer/pretokenizers/0/behavior", "MergedWithNext"),
      HasSubstr("MergedWithNext"));
  EXPECT_THAT(
      with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "("),
      HasSubstr("pattern"));
  EXPECT_THAT(with("/decoder", {{"type", "Fuse"}}), HasSubstr("decoder Fuse"));
  EXPECT_THAT(
      with("/post_processor", {{"type", "Odd"}}),
      HasSubstr("post-processor Odd"));
  EXPECT_THAT(with("/model/type", "Unigram"), HasSubstr("Unigram"));
  EXPECT_THAT(with("/model/byte_fallback", true), HasSubstr("byte_fallback"));
  EXPECT_THAT(with("/model/dropout", 0.1), HasSubstr("dropout"));
  EXPECT_THAT(with("/model/merges/0", "x"), HasSubstr("two tokens"));
  EXPECT_THAT(with("/model/vocab/!", 99999999), HasSubstr("out of place"));
  EXPECT_THAT(with("/model/vocab/!", 5), HasSubstr("same id"));
  const auto added = [](int id) {
    return nlohmann::json{{"content", std::to_string(id)}, {"id", id}};
  };
  const auto far = nlohmann::json::array({added(1'000'000)});
  EXPECT_EQ(with("/added_tokens", far), "");
  // Holes among the ids do not allow more holes.
  EXPECT_THAT(
      with(
          "/added_tokens",
          nlohmann::json::array({added(1'000'000), added(4'000'000)})),
      HasSubstr("id 4000000 of \"4000000\" is out of place"));
  auto steps = nlohmann::json::array();
  for (int i = 0; i < 64; ++i) {
    steps.push_back({{"type", "Digits"}});
  }
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}});
  EXPECT_THAT(
      with("/pre_tokenizer/pretokenizers", steps),
      HasSubstr("65 \"pretokenizers\" are refused"));
  steps.erase(0);
  EXPECT_EQ(with("/pre_tokenizer/pretokenizers", steps), "");
  EXPECT_THAT(with("/model/vocab/!", "five"), HasSubstr("whole number"));
}

} // namespace
} // namespace cairn::text::tokenizer_json_test
