#include "evaluate/task_file.h"

#include "evaluate/golden_evaluation.h"
#include "evaluate/hellaswag_text.h"
#include "support/error_text.h"
#include "support/fuzz.h"
#include "support/temporary_folder.h"
#include "text/internal/python_text.h"

#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::evaluate::task_files_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class TaskFiles : public ::testing::Test {
 protected:
  /// The message for a file with this text that is read as lines of objects.
  std::string lines_error(const std::string& text) const {
    const std::string file = folder_.write("lines.jsonl", text);
    return error_text<DataError>([&] {
      for_each_object(file, [](const json& object, const std::string& where) {
        text_under(object, "text", where);
      });
    });
  }
  std::string text_error(const std::string& text) const {
    const std::string file = folder_.write("text.txt", text);
    return error_text<DataError>([&] { read_text(file); });
  }

  testing::TemporaryFolder folder_;
};

TEST_F(TaskFiles, SayWhatIsWrongAndWhere) {
  EXPECT_THAT(text_error(""), HasSubstr("text.txt: the file holds no text"));
  EXPECT_THAT(text_error(" \n\t"), HasSubstr("the file holds no text"));
  EXPECT_THAT(
      text_error("one\ntwo \xff three\n"),
      HasSubstr("text.txt:2: not UTF-8 text (byte 0xff)"));
  EXPECT_THAT(
      error_text<DataError>([&] { read_text(folder_ / "none.txt"); }),
      HasSubstr("none.txt"));

  const std::string good = "{\"text\": \"a b\"}\n";
  EXPECT_THAT(
      lines_error(good + "\n{\"text\": \"a\"\n"),
      HasSubstr("lines.jsonl:3: a line that is no JSON"));
  EXPECT_THAT(
      lines_error(good + "{\"text\": \"\xff\"}"),
      HasSubstr("lines.jsonl:2: a line that is no JSON"));
  EXPECT_THAT(
      lines_error("[1]"),
      HasSubstr("lines.jsonl:1: a line that holds no JSON object (array)"));
  EXPECT_THAT(
      lines_error(good + "{\"text\": 5}"),
      HasSubstr("lines.jsonl:2: \"text\" is to be a text (number)"));
  EXPECT_THAT(lines_error("{}"), HasSubstr("(it is missing)"));
  EXPECT_THAT(lines_error("\n \n"), HasSubstr("no line holds an object"));
  // Deeply nested, as no parser on the stack can take it.
  EXPECT_THAT(
      lines_error(std::string(1 << 20, '[')),
      HasSubstr("a line that is no JSON"));
}

TEST_F(TaskFiles, MayBeginWithAByteOrderMark) {
  EXPECT_EQ(read_text(folder_.write("a.txt", "\xef\xbb\xbfword")), "word");
  int lines = 0;
  for_each_object(
      folder_.write("a.jsonl", "\xef\xbb\xbf{\"text\": \"a\"}\r\n\r\n"),
      [&](const json& object, const std::string& where) {
        EXPECT_EQ(text_under(object, "text", where), "a");
        ++lines;
      });
  EXPECT_EQ(lines, 1);
}

TEST_F(TaskFiles, AreKnownByTheirNames) {
  EXPECT_TRUE(is_json_file("a/b.jsonl"));
  EXPECT_TRUE(is_json_file("b.json.gz"));
  EXPECT_FALSE(is_json_file("b.jsonl/wiki.txt"));
  EXPECT_FALSE(is_json_file("wiki.test.tokens"));
}

json some_choice() {
  return {
      {"activity_label", "Hiking"},
      {"ctx_a", "A boy walks."},
      {"ctx_b", "the OLD dog"},
      {"ctx", "A boy walks. the OLD dog"},
      {"endings", {"barks.", "[step] sits  down [title] Now."}},
      {"label", 1}};
}

TEST(HellaSwagText, IsTheHarnesssOrAsItIs) {
  const EndingsChoice made = hellaswag_choice(some_choice(), false, "f:1");
  EXPECT_EQ(made.context, "Hiking: A boy walks. The old dog");
  EXPECT_EQ(made.endings[1], " sits down. Now.");
  EXPECT_EQ(made.right, 1U);
  const EndingsChoice plain = hellaswag_choice(some_choice(), true, "f:1");
  EXPECT_EQ(plain.context, "A boy walks. the OLD dog");
  EXPECT_EQ(plain.endings[1], "[step] sits  down [title] Now.");
  // Python's capitalize() and regular expressions.
  json other = some_choice();
  other["ctx_b"] = "ÉTÉ Ünd";
  EXPECT_THAT(
      hellaswag_choice(other, false, "f:1").context,
      HasSubstr("walks. Été ünd"));
  EXPECT_EQ(text::python::capitalize("ßA ΑΣ"), "Ssa ας");
  EXPECT_EQ(text::python::capitalize("ǆX"), "ǅx");
  EXPECT_EQ(text::python::capitalize("1aB"), "1ab");
  EXPECT_EQ(text::python::capitalize(""), "");
  EXPECT_EQ(without_wikihow_marks("a [b\nc] [d] [e"), "a [b\nc] [e");
  EXPECT_EQ(without_wikihow_marks(" x    y [[z]] \n"), "x  y ]");
}

TEST(HellaSwagText, RefusesOtherLines) {
  const auto refusal = [](const char* key, const json& value) {
    json object = some_choice();
    object[key] = value;
    return error_text<DataError>(
        [&] { hellaswag_choice(object, false, "f.jsonl:7"); });
  };
  EXPECT_THAT(
      refusal("label", 2),
      HasSubstr("f.jsonl:7: \"label\" is to be the number of the right ending "
                "(2); "));
  EXPECT_THAT(refusal("label", ""), HasSubstr("(\"\"); use the file with"));
  EXPECT_THAT(refusal("label", "1x"), HasSubstr("\"label\""));
  EXPECT_THAT(refusal("label", -1), HasSubstr("\"label\""));
  EXPECT_THAT(refusal("label", 0.5), HasSubstr("\"label\""));
  EXPECT_THAT(refusal("endings", {"one"}), HasSubstr("two at least"));
  EXPECT_THAT(refusal("endings", "one"), HasSubstr("two at least"));
  EXPECT_THAT(
      refusal("endings", {"one", 2}),
      HasSubstr("an ending that is no text (number)"));
  EXPECT_THAT(refusal("ctx_a", 1), HasSubstr("\"ctx_a\" is to be a text"));
  json no_label = some_choice();
  no_label.erase("label");
  EXPECT_THAT(
      error_text<DataError>([&] { hellaswag_choice(no_label, true, "f:1"); }),
      HasSubstr("it is missing"));
}

TEST(HellaSwagText, TakesAnyLine) {
  testing::fuzz(
      {.seeds = {some_choice().dump()},
       .pieces = {"null", "[title]", "[", "]", "\"label\":", "\\ud800", "{"},
       .runs = 3000},
      [](const std::string& line) {
        const json object = json::parse(line, nullptr, false);
        if (!object.is_object()) {
          throw DataError({.what = "no object"});
        }
        hellaswag_choice(object, false, "f:1");
      });
}

} // namespace
} // namespace cairn::evaluate::task_files_test
