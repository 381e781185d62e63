#include "evaluate/task.h"

#include "evaluate/golden_evaluation.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::evaluate::tasks_test {
namespace {

using Parts = std::pair<std::string, std::string>;
using ::testing::HasSubstr;

class Tasks : public ::testing::Test {
 protected:
  std::string file(const std::string& name, std::string_view text) const {
    return folder_.write(name, text);
  }
  std::unique_ptr<Task> lambada(
      std::string_view lines,
      bool whole_word,
      std::int64_t length = 64) {
    return lambada_task(
        {.file = file("lambada.jsonl", lines),
         .length = length,
         .whole_word = whole_word},
        text_,
        quiet_);
  }
  /// What the model reads, and what it is asked for.
  Parts parts(const TextRow& row) const {
    const auto scored = static_cast<std::size_t>(row.scored);
    return {
        tokenizer_->decode(row.tokens.first(row.tokens.size() - scored)),
        tokenizer_->decode(row.tokens.last(scored))};
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const text::Tokenizer> tokenizer_ = golden_tokenizer();
  ModelText text_ = golden_text();
  Logger quiet_{{.least = LogLevel::error}};
};

TEST_F(Tasks, LambadaAsksForTheLastTokenOrTheLastWord) {
  constexpr const char* lines =
      "{\"text\": \"a path to the unmistakable river\"}\n"
      "{\"text\": \" the river and the unmistakable  \\n\"}\n";
  const auto words = lambada(lines, true);
  ASSERT_EQ(words->rows().size(), 2U);
  EXPECT_EQ(
      parts(words->rows()[0]),
      Parts("a path to the unmistakable", " river"));
  EXPECT_EQ(
      parts(words->rows()[1]),
      Parts("the river and the", " unmistakable"));
  EXPECT_GT(words->rows()[1].scored, 1);
  EXPECT_TRUE(words->asks_for_likeliest());

  const auto tokens = lambada(lines, false);
  EXPECT_EQ(tokens->rows()[1].scored, 1);
  const auto whole = tokenizer_->encode(" the river and the unmistakable  \n");
  EXPECT_TRUE(std::ranges::equal(tokens->rows()[1].tokens, whole));
}

TEST_F(Tasks, LambadaCountsWhatIsForeseen) {
  const auto task = lambada("{\"text\": \"a b\"}\n{\"text\": \"c d\"}\n", true);
  const auto result =
      task->result(std::vector<RowScore>{{1, true}, {2, false}});
  EXPECT_EQ(
      result.line,
      " validation results on LAMBADA | number correct: 1.0000E+00 | total "
      "examples: 2.0000E+00 | avg accuracy: 5.0000E-01");
  EXPECT_EQ(result.values.at("avg_loss"), 1.5);
}

TEST_F(Tasks, LambadaCutsLongTextsOnTheLeft) {
  const auto task =
      lambada("{\"text\": \"one two three four five six river\"}\n", false, 4);
  const auto whole = tokenizer_->encode("one two three four five six river");
  ASSERT_GT(whole.size(), 5U);
  EXPECT_TRUE(
      std::ranges::equal(task->rows()[0].tokens, std::span(whole).last(5)));
  const auto result = task->result(std::vector<RowScore>{{1, true}});
  EXPECT_EQ(result.values.at("cut_examples"), 1);
}

TEST_F(Tasks, LambadaRefusesTextsWithoutABeginning) {
  const auto refusal = [&](std::string_view lines, bool whole_word) {
    return error_text<DataError>([&] { lambada(lines, whole_word); });
  };
  const std::string_view good = "{\"text\": \"a b\"}\n";
  for (const char* bad :
       {"{\"text\": \"word\"}", "{\"text\": \" \"}", "{\"text\": \"\"}"}) {
    EXPECT_THAT(
        refusal(std::string(good) + bad, true),
        HasSubstr("lambada.jsonl:2: a text with nothing before its last word"))
        << bad;
  }
  EXPECT_THAT(
      refusal("{\"text\": \"\"}", false),
      HasSubstr("lambada.jsonl:1: a text with nothing before"));
}

TEST_F(Tasks, HellaSwagChoosesByLossAndByLossPerCharacter) {
  const std::string line =
      R"({"activity_label": "X", "ctx_a": "The bird", "ctx_b": "sings",)"
      R"( "ctx": "The bird sings",)"
      R"( "endings": ["été", "a long song now"], "label": 1})";
  const std::string name = file("h.jsonl", line + "\n" + line + "\n");
  const auto task = hellaswag_task({.file = name, .length = 64}, text_, quiet_);
  ASSERT_EQ(task->rows().size(), 4U);
  EXPECT_EQ(
      parts(task->rows()[1]),
      Parts("X: The bird Sings", " a long song now"));
  // The first ending is likelier, the second one by character: 6 / 3 and
  // 7.5 / 15. In the second example both prefer the right one.
  const auto result = task->result(
      std::vector<RowScore>{{6, true}, {7.5, true}, {9, true}, {8, true}});
  EXPECT_EQ(
      result.line,
      " validation results on HELLASWAG | number correct: 1.0000E+00 | total "
      "examples: 2.0000E+00 | avg accuracy: 5.0000E-01 | normalized accuracy: "
      "1.0000E+00");
  EXPECT_EQ(result.values.at("normalized_by"), "characters");

  const auto plain = hellaswag_task(
      {.file = name, .length = 64, .plain = true},
      text_,
      quiet_);
  EXPECT_EQ(parts(plain->rows()[0]), Parts("The bird sings", " été"));
  EXPECT_EQ(
      plain->result(std::vector<RowScore>(4)).values.at("normalized_by"),
      "tokens");
}

TEST_F(Tasks, WikiTextTellsPerplexityByTokenAndByWord) {
  const std::string name = file("wiki.txt", " \n the river , \n and  path \n ");
  const auto task = wikitext_task({.file = name, .length = 8}, text_, quiet_);
  const auto tokens = tokenizer_->encode("\nthe river,\nand  path\n");
  std::vector<RowScore> scores(task->rows().size());
  scores[0].loss = 3.5;
  const auto result = task->result(scores);
  EXPECT_EQ(result.values.at("tokenized_tokens"), tokens.size());
  // the, river, ",", "\n", and, "", path: what blanks separate.
  EXPECT_EQ(result.values.at("original_tokens"), 7);
  const double loss = 3.5 / static_cast<double>(tokens.size() - 1);
  const double ratio = static_cast<double>(tokens.size() - 1) / 6;
  EXPECT_DOUBLE_EQ(result.values.at("avg_loss"), loss);
  EXPECT_DOUBLE_EQ(result.values.at("token_ratio"), ratio);
  EXPECT_DOUBLE_EQ(result.values.at("adjusted_ppl"), std::exp(loss * ratio));
  // The loss counts as 20 at most.
  scores[0].loss = 1e6;
  EXPECT_THAT(
      task->result(scores).line,
      HasSubstr(
          "| ppl: 4.8517E+08 | adjusted ppl: 4.8517E+08 | token ratio: "));
  scores[0].loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(
      task->result(scores).line,
      HasSubstr("| ppl: NAN | adjusted ppl: NAN |"));
  EXPECT_THAT(
      error_text<DataError>([&] {
        wikitext_task({.file = file("one.txt", "x")}, text_, quiet_);
      }),
      HasSubstr("one.txt: a text of one word or token has no perplexity"));
}

TEST_F(Tasks, PerplexityScoresEveryTokenOfEveryText) {
  const std::string name = file(
      "t.jsonl",
      "{\"body\": \"the river\"}\n{\"body\": \"\"}\n{\"body\": \"été  a\"}\n");
  const auto task = perplexity_task(
      {.file = name, .key = "body", .length = 64, .step = 64},
      text_,
      quiet_);
  const auto first = tokenizer_->encode("the river");
  ASSERT_EQ(task->rows().size(), 2U);
  EXPECT_EQ(task->rows()[0].tokens[0], 0); // <|endoftext|>
  EXPECT_EQ(task->rows()[0].scored, std::ssize(first));
  const auto result = task->result(std::vector<RowScore>{{4, true}, {2, true}});
  EXPECT_EQ(result.values.at("bytes"), 9 + 8);
  EXPECT_EQ(result.values.at("words"), 4);
  EXPECT_DOUBLE_EQ(
      result.values.at("bits_per_byte"),
      6 / std::numbers::ln2 / 17);
  EXPECT_DOUBLE_EQ(result.values.at("ppl_per_word"), std::exp(1.5));
  EXPECT_THAT(result.line, HasSubstr("| bits per byte: 5.0919E-01 |"));
}

} // namespace
} // namespace cairn::evaluate::tasks_test
