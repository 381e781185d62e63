#include <cairn/base/error.h>
#include <cairn/text/sentence_splitter.h>
#include "support/command.h"
#include "support/fuzz.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <random>
#include <thread>

namespace cairn::text::sentence_splitter_test {
namespace {

using cairn::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Sentences = std::vector<std::string_view>;

enum class Newlines { dropped, kept };

Sentences split(
    const SentenceSplitter& splitter,
    std::string_view text,
    Newlines newlines = Newlines::dropped) {
  Sentences sentences;
  splitter.split(text, sentences, newlines == Newlines::kept);
  return sentences;
}

std::string message(const std::string& model) {
  try {
    SentenceSplitter::parse(model, "m");
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(SentenceSplitter, SplitsAsNltkDoes) {
  const auto cases = nlohmann::json::parse(
      cairn::testing::read_text(CAIRN_GOLDEN_DIR "/sentences/cases.json"));
  ASSERT_EQ(cases.size(), 300U);
  const auto splitter = SentenceSplitter::english();
  for (const auto& each : cases) {
    const auto text = each["text"].get<std::string>();
    const auto expected = [&](const char* key) {
      return each[key].get<std::vector<std::string>>();
    };
    EXPECT_THAT(
        split(splitter, text),
        ::testing::ElementsAreArray(expected("sentences")))
        << text;
    EXPECT_THAT(
        split(splitter, text, Newlines::kept),
        ::testing::ElementsAreArray(expected("sentences_keep_newlines")))
        << text;
  }
}

// Results of NLTK 3.8.1 beyond the golden cases: Python's idea of whitespace,
// letters and case.
TEST(SentenceSplitter, KnowsPythonsCharacters) {
  const auto splitter = SentenceSplitter::english();
  EXPECT_THAT(
      split(splitter, "A cat.\u3000A dog.\u00a0\u2028A cow.\x1c\u0085"),
      ElementsAre("A cat.", "A dog.", "A cow."));
  // NLTK looks for the word before a period only after ASCII's spaces, and
  // finds two sentence ends in one word here.
  EXPECT_THAT(
      split(splitter, "One.\u3000Two. Three."),
      ElementsAre("One.\u3000Two.", "Three."));
  // A letter and a period before a capitalised word are an initial.
  EXPECT_THAT(split(splitter, "By É. Zola."), ElementsAre("By É. Zola."));
  EXPECT_THAT(split(splitter, "By ½. Zola."), ElementsAre("By ½. Zola."));
  EXPECT_THAT(split(splitter, "By ٣. Zola."), ElementsAre("By ٣.", "Zola."));
}

TEST(SentenceSplitter, AppendsAndTakesEmptyText) {
  const auto splitter = SentenceSplitter::english();
  Sentences sentences{"kept"};
  splitter.split("A cat. A dog.", sentences, false);
  EXPECT_THAT(sentences, ElementsAre("kept", "A cat.", "A dog."));
  EXPECT_TRUE(split(splitter, "").empty());
  EXPECT_TRUE(split(splitter, " \n\t ").empty());
  EXPECT_TRUE(split(splitter, " \n\t ", Newlines::kept).empty());
}

TEST(SentenceSplitter, TakesAnyBytes) {
  const auto splitter = SentenceSplitter::english();
  std::mt19937 random(3);
  const std::string_view alphabet =
      "aZ.?!-,'\")( \n\t\xc2\x85\xa0\xe2\x80\xa8\xe3\xff\xf0\x9f\x00 9";
  for (int run = 0; run < 3000; ++run) {
    std::string text(random() % 60, ' ');
    for (char& c : text) {
      c = alphabet[random() % alphabet.size()];
    }
    for (const auto newlines : {Newlines::dropped, Newlines::kept}) {
      const char* end = text.data();
      for (const auto sentence : split(splitter, text, newlines)) {
        ASSERT_FALSE(sentence.empty());
        ASSERT_GE(sentence.data(), end); // in order, without overlap
        end = sentence.data() + sentence.size();
      }
      ASSERT_LE(end, text.data() + text.size());
    }
  }
}

TEST(SentenceSplitter, IsLinearInTheText) {
  const auto splitter = SentenceSplitter::english();
  for (const std::string_view piece :
       {".", "a.'", ". ", "-", "\"", "? ", "'"}) {
    std::string text;
    while (text.size() < 1'000'000) {
      text += piece;
    }
    split(splitter, text); // minutes if it were quadratic
    split(splitter, text, Newlines::kept);
  }
}

TEST(SentenceSplitter, ServesManyThreads) {
  const auto splitter = SentenceSplitter::english();
  const std::string text =
      "Mr. Smith went to Washington, D.C. He met Dr. Jones at 5 p.m. They ate.";
  const auto expected = split(splitter, text);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int run = 0; run < 200; ++run) {
        EXPECT_EQ(split(splitter, text), expected);
      }
    });
  }
}

TEST(SentenceRules, AreAbbreviationsALine) {
  const std::string text = "Das ist z.B. Herr Dr. Maier. Er kommt.";
  const auto none = SentenceSplitter::parse("", "m");
  EXPECT_EQ(split(none, text).size(), 4U);
  const auto rules = SentenceSplitter::parse(
      "# German\nz.B.\n\n  DR  # with and without its period\n",
      "m");
  EXPECT_THAT(
      split(rules, text),
      ElementsAre("Das ist z.B. Herr Dr. Maier.", "Er kommt."));
}

TEST(SentenceRules, MayAddToEnglish) {
  const std::string text = "See approx. Five of Mr. Bean.";
  EXPECT_EQ(split(SentenceSplitter::parse("approx", "m"), text).size(), 2U);
  EXPECT_EQ(split(SentenceSplitter::english(), text).size(), 2U);
  for (const char* rules :
       {"approx\ninclude english\n", "include english\napprox.\n"}) {
    EXPECT_EQ(split(SentenceSplitter::parse(rules, "m"), text).size(), 1U);
  }
}

TEST(SentenceRules, NameTheLineThatIsWrong) {
  EXPECT_EQ(
      message("dr\n\nno such\n"),
      "m:3: \"no such\" is no abbreviation; give one a line, or the line "
      "\"include english\"");
  EXPECT_THAT(message(".\n"), HasSubstr("m:1: \".\" is no abbreviation"));
}

TEST(SentenceModel, IsReadFromJson) {
  const auto splitter = SentenceSplitter::parse(
      R"({"abbrev_types": ["dr"], "sent_starters": ["he"],
          "collocations": [["no", "five"]], "ortho_context": {"cat": 32}})",
      "m");
  EXPECT_THAT(
      split(splitter, "A dr. Who. A dr. He sat. A dr. Cat sat. No. Five ran."),
      ElementsAre(
          "A dr. Who.",
          "A dr.",
          "He sat.",
          "A dr.",
          "Cat sat.",
          "No. Five ran."));
}

TEST(SentenceModel, NamesWhatIsWrong) {
  EXPECT_THAT(message("{\n\"abbrev_types\": [}"), HasSubstr("m:2: not JSON"));
  EXPECT_THAT(
      message(R"({"abbrev": []})"),
      HasSubstr("\"abbrev\" is no part of a sentence model"));
  EXPECT_THAT(
      message(R"({"abbrev_types": [1]})"),
      HasSubstr("a word of abbrev_types is not a string"));
  EXPECT_THAT(
      message(R"({"collocations": [["a"]]})"),
      HasSubstr("no pair of words"));
  EXPECT_THAT(
      message(R"({"ortho_context": {"a": 1}})"),
      HasSubstr("ortho_context of \"a\" is 1"));
  EXPECT_THAT(
      message(R"({"ortho_context": {"a": -2}})"),
      HasSubstr("\"a\" is -2"));
  const TemporaryFolder folder;
  EXPECT_THROW(SentenceSplitter::load(folder / "none"), DataError);
}

TEST(SentenceModel, ShippedFileIsTheBuiltInModel) {
  const auto file =
      SentenceSplitter::load(CAIRN_SOURCE_DIR "/share/punkt/english.json");
  const std::string text = "Mr. Smith of Acme Corp. Inc. The end. U.S. Steel.";
  EXPECT_EQ(split(file, text), split(SentenceSplitter::english(), text));
}

TEST(SentenceModel, DamagedFilesDoNoHarm) {
  const int accepted = cairn::testing::fuzz(
      {.seeds =
           {R"({"abbrev_types": ["dr", "u.s"], "sent_starters": ["he"],
               "collocations": [["no", "5"]], "ortho_context": {"a": 126}})",
            "# rules\ndr.\nu.s\nprof\n"},
       .pieces = {"include english\n", "[[", "{", "\"\\ud800\"", "1e999", "#"},
       .runs = 3000},
      [](const std::string& text) {
        const auto splitter = SentenceSplitter::parse(text, "m");
        split(splitter, text);
        split(splitter, text, Newlines::kept);
      });
  EXPECT_GT(accepted, 300);
}

} // namespace
} // namespace cairn::text::sentence_splitter_test
