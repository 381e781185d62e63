#include <cairn/base/error.h>

#include "base/internal/utf8.h"
#include "data/golden_indexed.h"
#include "data/internal/json_line.h"
#include "data/internal/line_reader.h"
#include "support/fuzz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace cairn::data::json_line_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A line followed by the bytes that a parser may read.
std::vector<char> padded(std::string_view line) {
  std::vector<char> bytes(line.begin(), line.end());
  bytes.resize(line.size() + LineBlock::padding);
  return bytes;
}

std::vector<std::string> strings(const TextParts& parts) {
  return {parts.begin(), parts.end()};
}

std::vector<std::string> texts_of(
    std::string_view line,
    const std::vector<std::string>& keys = {"text"}) {
  auto bytes = padded(line);
  JsonLineParser parser(keys);
  parser.parse(std::span(bytes).first(line.size()));
  std::vector<std::string> all;
  for (const auto& text : parser.texts()) {
    std::ranges::copy(strings(text.parts), std::back_inserter(all));
  }
  return all;
}

std::string refusal(
    std::string_view line,
    const std::vector<std::string>& keys = {"text"}) {
  try {
    texts_of(line, keys);
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(JsonLine, FindsTextsWhereverTheyStand) {
  EXPECT_THAT(texts_of(R"({"text": "a b"})"), ElementsAre("a b"));
  EXPECT_THAT(texts_of(R"( { "text" : "a" } )"), ElementsAre("a"));
  EXPECT_THAT(
      texts_of(R"({"n":[1,{"text":"no"}],"text":"yes","x":{"text":"no"}})"),
      ElementsAre("yes"));
  EXPECT_THAT(
      texts_of(R"({"a":"1","b":"2","c":"3"})", {"c", "a"}),
      ElementsAre("3", "1"));
  EXPECT_THAT(texts_of(R"({"te\u0078t":"a"})"), ElementsAre("a"));
  EXPECT_THAT(texts_of(R"({"text":"a","text":"b"})"), ElementsAre("b"));
  EXPECT_THAT(texts_of(R"({"x":NaN,"text":"a"})"), ElementsAre("a"));
  EXPECT_THAT(texts_of(R"({"text":""})"), ElementsAre(""));
}

TEST(JsonLine, TakesListsOfSentences) {
  auto bytes = padded(R"({"text":["One.","Two\n."],"b":[]})");
  JsonLineParser parser({"text", "b"});
  parser.parse(std::span(bytes).first(bytes.size() - LineBlock::padding));
  EXPECT_TRUE(parser.texts()[0].is_list);
  EXPECT_THAT(strings(parser.texts()[0].parts), ElementsAre("One.", "Two\n."));
  EXPECT_TRUE(parser.texts()[1].is_list);
  EXPECT_THAT(strings(parser.texts()[1].parts), ElementsAre());
  EXPECT_THAT(
      texts_of(R"({"text":[ "" ,"a\"b\\","\\\"" , "","\u00e9, \"]\"" ]})"),
      ElementsAre("", "a\"b\\", "\\\"", "", "é, \"]\""));
}

TEST(JsonLine, ResolvesEscapesWhereverTheyStand) {
  // Escapes come at every distance from each other and from the end.
  for (std::size_t gap = 0; gap < 70; ++gap) {
    std::string raw;
    std::string expected;
    for (int i = 0; i < 70; ++i) {
      const std::string plain(gap + static_cast<std::size_t>(i % 3), 'a');
      raw += plain + (i % 7 == 0 ? "\\u00e9" : i % 2 == 0 ? "\\n" : "\\\\");
      expected += plain + (i % 7 == 0 ? "é" : i % 2 == 0 ? "\n" : "\\");
    }
    const std::string tail(gap, 'b');
    ASSERT_THAT(
        texts_of("{\"text\":\"" + raw + tail + "\"}"),
        ElementsAre(expected + tail))
        << gap;
  }
}

TEST(JsonLine, ResolvesEscapes) {
  EXPECT_THAT(
      texts_of(R"({"text":"\"\\\/\b\f\n\r\tx\u00e9\u4e2d\ud83d\ude00!"})"),
      ElementsAre("\"\\/\b\f\n\r\txé中😀!"));
  EXPECT_THAT(texts_of(R"({"text":"a\\"})"), ElementsAre("a\\"));
  EXPECT_THAT(
      texts_of(R"({"text":"\u0000"})"),
      ElementsAre(std::string(1, '\0')));
}

TEST(JsonLine, ReadsWhatAnotherParserReads) {
  for (const char* file : {"docs.jsonl", "docs_ss.jsonl", "extra.jsonl"}) {
    std::istringstream lines(fixtures::slurp(fixtures::golden_indexed(file)));
    std::string line;
    int count = 0;
    while (std::getline(lines, line)) {
      const auto text = nlohmann::json::parse(line)["text"];
      const auto expected = text.is_array()
          ? text.get<std::vector<std::string>>()
          : std::vector<std::string>{text.get<std::string>()};
      EXPECT_EQ(texts_of(line), expected);
      ++count;
    }
    EXPECT_GT(count, 5);
  }
}

TEST(JsonLine, SaysWhatIsWrong) {
  EXPECT_THAT(refusal("no json"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(R"({"text": "a)"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(R"({"text": "a")"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(R"({"text": "a"} {})"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(R"({"text": "a" "b": 1})"), HasSubstr("not a JSON"));
  EXPECT_THAT(
      refusal(R"({"title": "a", "url": 1})"),
      HasSubstr("has no key \"text\" (its keys: title, url)"));
  EXPECT_THAT(refusal("{}"), HasSubstr("it has none at all"));
  EXPECT_THAT(
      refusal(R"({"text": 5})"),
      HasSubstr("the value of \"text\" is a number, not a string"));
  EXPECT_THAT(refusal(R"({"text": null})"), HasSubstr("is null"));
  EXPECT_THAT(
      refusal(R"({"text": ["a", 1]})"),
      HasSubstr("other things than strings"));
  EXPECT_THAT(refusal(R"({"text": "\x"})"), HasSubstr("\"\\x\" stands for no"));
  EXPECT_THAT(
      refusal(R"({"text": "\ud800 alone"})"),
      HasSubstr("\"\\ud800\" stands for no"));
  EXPECT_THAT(refusal(R"({"text": "\u12"})"), HasSubstr("stands for no"));
  EXPECT_THAT(
      refusal("{\"text\": \"ab\xff\"}"),
      HasSubstr("invalid UTF-8 (at byte 13 of the line)"));
}

TEST(JsonLine, FindsFaultsInValuesThatNobodyWants) {
  const std::string deep(2000, '[');
  const std::string closed(2000, ']');
  for (const std::string& broken :
       {std::string(R"({"b":[1,2}, "text":"ok"})"),
        std::string(R"({"b":{"c":1], "text":"ok"})"),
        std::string(R"({"text":"ok","b":foo})"),
        std::string(R"({"text":"ok","b":nulll})"),
        std::string(R"({"text":"ok","b":01})"),
        std::string(R"({"text":"ok","b":-})"),
        std::string(R"({"text":"ok","b":1.})"),
        std::string(R"({"text":"ok","b":.5})"),
        std::string(R"({"text":"ok","b":1e})"),
        std::string(R"({"text":"ok","b":+1})"),
        std::string(R"({"text":"ok","b":nan})"),
        std::string(R"({"text":"ok","b":"\x"})"),
        std::string(R"({"text":"ok","b":"\u12g4"})"),
        std::string(R"({"text":"ok","b":})"),
        std::string(R"({"text":"ok","b":[1,]})"),
        std::string(R"({"text":"ok","b":[1 2]})"),
        std::string(R"({"text":"ok","b":["a"x]})"),
        std::string(R"({"text":"ok","b":{"c" 1}})"),
        std::string(R"({"text":"ok","b":{"\x":1}})"),
        std::string(R"({"text":"ok","b":{"c":[{"d":tru}]}})"),
        std::string(R"({"text":"\x","text":"ok"})"),
        "{\"text\":\"ok\",\"b\":" + deep + closed + "}"}) {
    EXPECT_THAT(refusal(broken), HasSubstr("not a JSON object"))
        << broken.substr(0, 80);
  }
  for (const char* value :
       {"0",
        "-0.5e+10 ",
        "123456789012345678901234567890",
        "1e999",
        "NaN",
        "[Infinity , -Infinity]",
        R"({"c" : [ true, false,null, {}, [] ], "\ud800" : "\ud800\n\/"})"}) {
    EXPECT_THAT(
        texts_of(std::string(R"({"b":)") + value + R"(,"text":"ok"})"),
        ElementsAre("ok"))
        << value;
  }
}

TEST(JsonLine, MessagesHoldNothingThatMovesTheCursor) {
  EXPECT_THAT(
      refusal(R"({"a\u001b[2Jb\u009b": 1})"),
      HasSubstr("its keys: a\\x1b[2Jb\\x9b)"));
}

TEST(JsonLine, TakesLongLines) {
  const std::string text(6 << 20, 'x');
  EXPECT_THAT(
      texts_of("{\"text\": \"" + text + "\\n\"}"),
      ElementsAre(text + "\n"));
}

TEST(JsonLine, Fuzz) {
  std::istringstream lines(
      fixtures::slurp(fixtures::golden_indexed("extra.jsonl")));
  std::vector<std::string> seeds{
      R"({"text": "a\u00e9\ud83d\ude00\n", "n": [1, {"text": null}]})",
      R"({"text": ["One.", "Two."], "x": true})"};
  for (std::string line; seeds.size() < 5 && std::getline(lines, line);) {
    seeds.push_back(line);
  }
  JsonLineParser parser({"text"});
  const int accepted = cairn::testing::fuzz(
      {.seeds = seeds,
       .pieces = {"\"", "\\", "\\u", "\\ud800", "{", "}", "[", "]", ":", ","},
       .runs = 20000},
      [&](const std::string& line) {
        auto bytes = padded(line);
        parser.parse(std::span(bytes).first(line.size()));
        for (const auto& text : parser.texts()) {
          for (const auto part : text.parts) {
            ASSERT_LE(part.size(), line.size());
            ASSERT_EQ(valid_utf8_end(part), part.size());
          }
        }
      });
  EXPECT_GT(accepted, 0);
}

} // namespace
} // namespace cairn::data::json_line_test
