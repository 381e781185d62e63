// Files of our own in the formats that GLUE and RACE publish.

#include "evaluate/finetune/clean_text.h"
#include "evaluate/finetune/finetune_task.h"
#include "evaluate/finetune/task_row.h"

#include "support/error_text.h"
#include "support/fuzz.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn::evaluate::labelled_files_test {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

struct Read {
  TaskFile file;
  std::vector<TaskRow> rows;
};

Read read(const std::string& task, const std::filesystem::path& path) {
  Read result;
  const TakeRow take = [&](TaskRow row) {
    result.rows.push_back(std::move(row));
  };
  const FinetuneTask& known = finetune_task(task);
  result.file = known.is_multiple_choice() ? read_race_folder(known, path, take)
                                           : read_glue_file(known, path, take);
  return result;
}

Read read_text(const std::string& task, const std::string& text) {
  const TemporaryFolder folder;
  return read(task, folder.write("file.tsv", text));
}

std::string refusal(const std::string& task, const std::string& text) {
  return error_text<DataError>([&] { read_text(task, text); });
}

void expect_row(
    const TaskRow& row,
    std::int64_t id,
    const std::string& a,
    const std::optional<std::string>& b,
    std::optional<double> label) {
  EXPECT_EQ(row.id, id);
  ASSERT_EQ(row.texts.size(), 1U);
  EXPECT_EQ(row.texts[0].a, a);
  EXPECT_EQ(row.texts[0].b, b);
  EXPECT_EQ(row.label, label);
}

const std::string mnli_header =
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\t"
    "sentence2_binary_parse\tsentence1_parse\tsentence2_parse\tsentence1\t"
    "sentence2\t";

TEST(LabelledFiles, OfMnliHaveTwelveSixteenOrTenColumns) {
  const std::string row = "p\tq\tfiction\ta\tb\tc\td\tA man sleeps .  Well.\t";
  const Read train = read_text(
      "MNLI",
      mnli_header + "label1\tgold_label\n0\t" + row +
          "He rests.\tneutral\tneutral\n1\t" + row +
          "He runs.\tcontradiction\tcontradiction\r\n");
  ASSERT_EQ(train.rows.size(), 2U);
  EXPECT_TRUE(train.file.labelled);
  expect_row(train.rows[0], 0, "A man sleeps. Well.", "He rests.", 2);
  expect_row(train.rows[1], 1, "A man sleeps. Well.", "He runs.", 0);

  const Read dev = read_text(
      "MNLI",
      mnli_header + "label1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n7\t" +
          row +
          "He rests.\tneutral\tneutral\tneutral\tneutral\tneutral\t"
          "entailment\n");
  expect_row(dev.rows.at(0), 7, "A man sleeps. Well.", "He rests.", 1);

  const Read test = read_text(
      "MNLI",
      mnli_header.substr(0, mnli_header.size() - 1) + "\n9847\t" + row +
          "He rests.\n");
  EXPECT_FALSE(test.file.labelled);
  expect_row(
      test.rows.at(0),
      9847,
      "A man sleeps. Well.",
      "He rests.",
      std::nullopt);
}

TEST(LabelledFiles, OfQnliAndRteNameTheirLabels) {
  for (const char* task : {"QNLI", "RTE"}) {
    const Read all = read_text(
        task,
        "index\tsentence1\tsentence2\tlabel\n3\tWho?\tHe.\tnot_entailment\n");
    expect_row(all.rows.at(0), 3, "Who?", "He.", 1);
    const Read test =
        read_text(task, "index\tsentence1\tsentence2\n0\tWho?\tHe.\n");
    EXPECT_FALSE(test.file.labelled);
  }
}

TEST(LabelledFiles, OfOneSentenceHaveNoSecond) {
  const Read train = read_text(
      "SST-2",
      "sentence\tlabel\nhide new secretions \t0\nfine .\t1\n");
  expect_row(train.rows.at(0), 0, "hide new secretions", std::nullopt, 0);
  expect_row(train.rows.at(1), 1, "fine .", std::nullopt, 1);
  const Read test = read_text("SST-2", "index\tsentence\n5\tdull\n");
  expect_row(test.rows.at(0), 5, "dull", std::nullopt, std::nullopt);

  // CoLA's files with labels have no header.
  const Read cola =
      read_text("CoLA", "gj04\t1\t\tBill rang.\nbc\t0\t*\tRang.\n");
  ASSERT_EQ(cola.rows.size(), 2U);
  expect_row(cola.rows[0], 0, "Bill rang.", std::nullopt, 1);
  expect_row(cola.rows[1], 1, "Rang.", std::nullopt, 0);
  const Read cola_test = read_text("CoLA", "index\tsentence\n0\tBill.\n");
  expect_row(cola_test.rows.at(0), 0, "Bill.", std::nullopt, std::nullopt);
}

TEST(LabelledFiles, OfStsbHaveScores) {
  const std::string header =
      "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\t"
      "sentence2";
  const Read train = read_text(
      "STS-B",
      header + "\tscore\n4\tg\tf\ty\to\ts\ts\tA plane.\tA jet.\t3.800\n");
  expect_row(train.rows.at(0), 4, "A plane.", "A jet.", 3.8);
  const Read test =
      read_text("STS-B", header + "\n0\tg\tf\ty\to\ts\ts\tA plane.\tA jet.\n");
  EXPECT_FALSE(test.file.labelled);
  EXPECT_THAT(
      refusal(
          "STS-B",
          header + "\tscore\n4\tg\tf\ty\to\ts\ts\tA plane.\tA jet.\tnan\n"),
      HasSubstr("file.tsv:2: the score is no number (\"nan\")"));
}

TEST(LabelledFiles, OfMrpcMayBeginWithAByteOrderMark) {
  const Read train = read_text(
      "MRPC",
      "\xef\xbb\xbfQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
      "1\t70\t71\tHe said \"no.\tHe refused.\n");
  expect_row(train.rows.at(0), 0, "He said \"no.", "He refused.", 1);
  const Read test = read_text(
      "MRPC",
      "\xef\xbb\xbfindex\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
      "12\t70\t71\tHe said.\tHe refused.\n");
  EXPECT_FALSE(test.file.labelled);
  expect_row(test.rows.at(0), 12, "He said.", "He refused.", std::nullopt);
}

TEST(LabelledFiles, OfQqpLeaveDamagedRowsOut) {
  const Read train = read_text(
      "QQP",
      "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
      "0\t1\t2\tWhy?\tHow?\t0\n"
      "1\t3\t4\tbroken off\n"
      "2\t5\t6\t\tHow?\t1\n"
      "3\t7\t8\tWhy?\tWhy?\t1\n");
  ASSERT_EQ(train.rows.size(), 2U);
  expect_row(train.rows[1], 3, "Why?", "Why?", 1);
  EXPECT_EQ(train.file.skipped, 2);
  EXPECT_THAT(
      train.file.first_skipped,
      HasSubstr("file.tsv:3: the row has another number of columns than the "
                "file (4, not 6)"));
  EXPECT_FALSE(
      read_text("QQP", "id\tquestion1\tquestion2\n0\ta\tb\n").file.labelled);
}

TEST(LabelledFiles, SayWhereTheyAreWrong) {
  const std::string header = "index\tsentence1\tsentence2\tlabel\n";
  EXPECT_THAT(
      refusal("RTE", header + "0\ta\tb\tentailment\n1\ta\tb\n"),
      HasSubstr("file.tsv:3: the row has another number of columns than the "
                "file (3, not 4)"));
  EXPECT_THAT(
      refusal("RTE", header + "0\ta\tb\tmaybe\n"),
      HasSubstr("file.tsv:2: RTE has no such label (\"maybe\"; the labels are "
                "entailment, not_entailment)"));
  EXPECT_THAT(
      refusal("RTE", header + "0\ta\t \tentailment\n"),
      HasSubstr("file.tsv:2: a text is empty (column 3)"));
  EXPECT_THAT(
      refusal("RTE", header + "first\ta\tb\tentailment\n"),
      HasSubstr(
          "file.tsv:2: the row does not begin with its number (\"first\")"));
  EXPECT_THAT(
      refusal("RTE", header + "0\ta\xff\tb\tentailment\n"),
      HasSubstr("file.tsv:2: the text is not UTF-8 (byte 4 of the line)"));
  EXPECT_THAT(
      refusal("RTE", "a\tb\n"),
      HasSubstr("file.tsv:1: this is no file of RTE (2 tab-separated columns; "
                "training and validation files have 4, test files 3)"));
  EXPECT_THAT(refusal("RTE", ""), HasSubstr("the file is empty"));
  EXPECT_THAT(
      refusal("RTE", std::string(1000, '\t') + "\n"),
      HasSubstr("this is no file of RTE"));
}

std::string article(const std::string& rest) {
  return R"({"article": "Tom saw\na cat . It ran.", )" + rest + "}\n";
}

TEST(LabelledFiles, OfRaceAreFoldersOfArticles) {
  const TemporaryFolder folder;
  folder.write("b.txt", article(R"("questions": ["The animal was _ ."],
          "options": [["old", "a cat", "a dog", "red"]], "answers": ["B"])"));
  // A file is one line.
  std::string two = article(
      R"("questions": ["Who?", "What?"], "options": [["1", "2", "3", "4"], )"
      R"(["5", "6", "7", "8"]], "answers": ["A", "D"], "id": "middle1.txt")");
  folder.write("a.txt", two);
  folder.write("notes.md", "not read");
  const std::string text =
      article(R"("questions": ["The animal was _ ."], )"
              R"("options": [["old", "a cat", "a dog", "red"]], )"
              R"("answers": ["B"])");
  folder.write("b.txt", text);
  const Read all = read("RACE", folder.path());
  ASSERT_EQ(all.rows.size(), 3U);
  EXPECT_EQ(all.file.rows, 3);
  EXPECT_EQ(all.rows[1].id, 1);
  EXPECT_EQ(all.rows[1].label, 3);
  ASSERT_EQ(all.rows[1].texts.size(), 4U);
  EXPECT_EQ(all.rows[1].texts[2].a, "What? 7");
  EXPECT_EQ(all.rows[1].texts[2].b, "Tom saw a cat. It ran.");
  EXPECT_EQ(all.rows[2].id, 2);
  EXPECT_EQ(all.rows[2].texts[1].a, "The animal was a cat .");
  EXPECT_EQ(all.rows[2].label, 1);
}

TEST(LabelledFiles, OfRaceSayWhereTheyAreWrong) {
  const auto refused = [](const std::string& text) {
    const TemporaryFolder folder;
    folder.write("high1.txt", text);
    return error_text<DataError>([&] { read("RACE", folder.path()); });
  };
  const std::string good =
      R"("questions": ["Who?"], "options": [["1", "2", "3", "4"]], )";
  EXPECT_THAT(
      refused(article(good + R"("answers": ["A"])") + "{\n"),
      HasSubstr("high1.txt:2: a line that is no JSON"));
  EXPECT_THAT(
      refused(article(good + R"("answers": ["E"])")),
      HasSubstr("high1.txt:1: an answer is none of the options' letters "
                "(\"E\")"));
  EXPECT_THAT(
      refused(article(good + R"("answers": [])")),
      HasSubstr("questions, options and answers are not equally many (1, 1, "
                "0)"));
  EXPECT_THAT(
      refused(article(good + R"("answer": ["A"])")),
      HasSubstr("the article lacks a member (answers)"));
  EXPECT_THAT(
      refused(article(
          R"("questions": ["Who?"], "options": [["1"]], "answers": ["A"])")),
      HasSubstr("a question has another number of options (1, not 4)"));
  EXPECT_THAT(
      refused(
          article(R"("questions": [1], "options": [["1"]], "answers": ["A"])")),
      HasSubstr("a question is no text (number)"));
  EXPECT_THAT(
      refused("[1]\n"),
      HasSubstr("high1.txt:1: a line that holds no JSON object (array)"));
  EXPECT_THAT(
      refused("{\"article\": \"\xff\"}\n"),
      HasSubstr("high1.txt:1: a line that is no JSON"));
  const TemporaryFolder empty;
  EXPECT_THAT(
      error_text<DataError>([&] { read("RACE", empty.path()); }),
      HasSubstr("the folder has no .txt files"));
  EXPECT_THAT(
      error_text<DataError>([&] { read("RACE", empty / "missing"); }),
      HasSubstr("cannot list the folder"));
}

TEST(LabelledFiles, MayHoldAnything) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "race");
  const std::vector<std::pair<std::string, std::string>> seeds{
      {"MNLI",
       mnli_header +
           "label1\tgold_label\n0\tp\tq\tr\ta\tb\tc\td\tA man .  B.\t"
           "He rests.\tneutral\tneutral\n"},
      {"QQP",
       "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
       "0\t1\t2\tWhy?\tHow?\t0\n"},
      {"STS-B",
       "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\t"
       "sentence1\tsentence2\tscore\n4\tg\tf\ty\to\ts\ts\tA.\tB.\t3.8\n"},
      {"RACE",
       article(R"("questions": ["It _ ."], "options": [["a", "b", "c", "d"]],)"
               R"("answers": ["B"])")}};
  for (const auto& [task, text] : seeds) {
    SCOPED_TRACE(task);
    const std::string name = task;
    testing::fuzz(
        {.seeds = {text},
         .pieces = {"\t", "\n", "\xff", "\xc2\xa0", "null", "[", "1e999"},
         .runs = 100},
        [&](const std::string& damaged) {
          folder.write("race/a.txt", damaged);
          folder.write("a.tsv", damaged);
          read(name, folder / (name == "RACE" ? "race" : "a.tsv"));
        });
  }
}

TEST(LabelledFiles, AreNamedAsMegatronPrintsThem) {
  const auto name = [](const char* task, const char* path) {
    return name_of_data(finetune_task(task), path);
  };
  EXPECT_EQ(name("MNLI", "glue_data/MNLI/dev_matched.tsv"), "dev-matched");
  EXPECT_EQ(name("RACE", "data/RACE/dev/middle/"), "dev-middle");
  EXPECT_EQ(name("RACE", "data/RACE"), "data-RACE");
  EXPECT_EQ(name("SST-2", "/x/test.tsv"), "x/test");
}

TEST(LabelledFiles, HaveTheirTextCleaned) {
  EXPECT_EQ(clean_text("  a\n b\t\tc  "), "a b c");
  EXPECT_EQ(clean_text("a . b . . c ."), "a. b.. c .");
  EXPECT_EQ(clean_text("a\u00a0\u3000b"), "a b");
  EXPECT_EQ(clean_text(" \t"), "");
}

} // namespace
} // namespace cairn::evaluate::labelled_files_test
