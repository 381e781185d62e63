#include "base/internal/utf8.h"
#include "evaluate/finetune/clean_text.h"
#include "evaluate/finetune/task_row.h"
#include "evaluate/task_file.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

namespace cairn::evaluate {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<fs::path> text_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    if (each->path().extension() == ".txt") {
      files.push_back(each->path());
    }
  }
  if (error) {
    throw DataError(
        {.what = "cannot list the folder",
         .where = folder.string(),
         .values = error.message(),
         .remedy = "RACE's data are folders of .txt files, such as "
                   "RACE/train/middle"});
  }
  if (files.empty()) {
    throw DataError(
        {.what = "the folder has no .txt files",
         .where = folder.string(),
         .remedy = "name the folder that has them, such as RACE/dev/high"});
  }
  std::ranges::sort(files);
  return files;
}

/// A line of a file: an article and what is asked about it.
class Article {
 public:
  Article(const json& object, std::string where, std::int64_t choices)
      : object_(object), where_(std::move(where)), choices_(choices) {}

  void read(std::int64_t first_id, const TakeRow& take) {
    const std::string text =
        clean_text(string_in(member("article"), "article"));
    const json& questions = list_in(member("questions"), "questions");
    const json& options = list_in(member("options"), "options");
    const json& answers = list_in(member("answers"), "answers");
    if (questions.size() != options.size() ||
        questions.size() != answers.size()) {
      refuse(
          "questions, options and answers are not equally many",
          fmt::format(
              "{}, {}, {}",
              questions.size(),
              options.size(),
              answers.size()));
    }
    for (std::size_t i = 0; i < questions.size(); ++i) {
      TaskRow row{.id = first_id + static_cast<std::int64_t>(i)};
      const std::string question = string_in(questions[i], "a question");
      const json& own = list_in(options[i], "the options of a question");
      if (static_cast<std::int64_t>(own.size()) != choices_) {
        refuse(
            "a question has another number of options",
            fmt::format("{}, not {}", own.size(), choices_));
      }
      for (const json& option : own) {
        row.texts.push_back(
            {clean_text(asked(question, string_in(option, "an option"))),
             text});
      }
      row.label = answer(string_in(answers[i], "an answer"));
      take(std::move(row));
    }
  }

  std::size_t questions() const { return member("questions").size(); }

 private:
  [[noreturn]] void refuse(const std::string& what, std::string values) const {
    throw DataError(
        {.what = what, .where = where_, .values = std::move(values)});
  }

  const json& member(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) {
      refuse("the article lacks a member", name);
    }
    return *found;
  }

  const std::string& string_in(const json& value, const char* what) const {
    if (!value.is_string()) {
      refuse(fmt::format("{} is no text", what), value.type_name());
    }
    return value.get_ref<const std::string&>();
  }

  const json& list_in(const json& value, const char* what) const {
    if (!value.is_array()) {
      refuse(fmt::format("{} are no list", what), value.type_name());
    }
    return value;
  }

  /// The question with the option in its gap, or behind it.
  static std::string asked(const std::string& question, const std::string& by) {
    if (question.find('_') == std::string::npos) {
      return question + " " + by;
    }
    std::string result;
    for (const char c : question) {
      c == '_' ? result.append(by) : result.append(1, c);
    }
    return result;
  }

  double answer(const std::string& letter) const {
    if (letter.size() != 1 || letter[0] < 'A' || letter[0] >= 'A' + choices_) {
      refuse(
          "an answer is none of the options' letters",
          fmt::format("\"{}\"", letter.substr(0, character_start(letter, 20))));
    }
    return letter[0] - 'A';
  }

  const json& object_;
  std::string where_;
  std::int64_t choices_;
};

} // namespace

TaskFile read_race_folder(
    const FinetuneTask& task,
    const fs::path& folder,
    const TakeRow& take) {
  TaskFile result;
  for (const fs::path& file : text_files(folder)) {
    for_each_object(file, [&](const json& object, const std::string& where) {
      Article article(object, where, task.choices);
      article.read(result.rows, take);
      result.rows += static_cast<std::int64_t>(article.questions());
    });
  }
  return result;
}

} // namespace cairn::evaluate
