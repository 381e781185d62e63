#include "base/internal/trimmed.h"
#include "base/internal/utf8.h"
#include "data/internal/line_reader.h"
#include "evaluate/finetune/clean_text.h"
#include "evaluate/finetune/glue_format.h"
#include "evaluate/finetune/task_row.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>
#include <utility>

namespace cairn::evaluate {
namespace {

using Cells = std::vector<std::string_view>;

constexpr std::string_view utf8_mark = "\xef\xbb\xbf";
constexpr std::size_t most_columns = 64;

Cells cells_of(std::string_view line) {
  Cells cells;
  for (std::size_t begin = 0;;) {
    const std::size_t tab = line.find('\t', begin);
    cells.push_back(line.substr(begin, tab - begin));
    if (tab == std::string_view::npos || cells.size() > most_columns) {
      return cells;
    }
    begin = tab + 1;
  }
}

bool fits(const GlueColumns& columns, std::size_t count) {
  return std::ranges::find(columns.counts, count) != columns.counts.end();
}

/// The start of a text that comes from a file, for a message.
std::string quoted(std::string_view text) {
  constexpr std::size_t most = 40;
  const std::size_t end = character_start(text, most);
  return fmt::format(
      "\"{}{}\"",
      text.substr(0, end),
      end < text.size() ? "…" : "");
}

/// Reads the rows of one file.
class GlueReader {
 public:
  GlueReader(const FinetuneTask& task, const std::filesystem::path& path)
      : task_(task), format_(glue_format(task.name)), lines_(path) {}

  TaskFile read(const TakeRow& take) {
    std::optional<std::string_view> line = lines_.next();
    if (!line) {
      throw DataError({.what = "the file is empty", .where = lines_.where()});
    }
    if (line->starts_with(utf8_mark)) {
      line->remove_prefix(utf8_mark.size());
    }
    if (begin(checked(*line))) {
      line = lines_.next();
    }
    for (; line; line = lines_.next()) {
      if (!line->empty()) {
        add(checked(*line), take);
      }
    }
    return file_;
  }

 private:
  std::string_view checked(std::string_view line) const {
    if (const auto end = valid_utf8_end(line); end != line.size()) {
      throw DataError(
          {.what = "the text is not UTF-8",
           .where = lines_.where(),
           .values = fmt::format("byte {} of the line", end + 1)});
    }
    return line;
  }

  /// Finds out the kind of file from its first line. False if that is a row.
  bool begin(std::string_view first) {
    const Cells cells = cells_of(first);
    const bool index = trimmed(cells.front()) == "index";
    const bool is_test = format_.test_has_index
        ? index
        : fits(format_.test, cells.size()) &&
            !fits(format_.labelled, cells.size());
    columns_ = is_test ? &format_.test : &format_.labelled;
    file_.labelled = !is_test;
    if (!fits(*columns_, cells.size())) {
      throw DataError(
          {.what = fmt::format("this is no file of {}", task_.name),
           .where = lines_.where(),
           .values = fmt::format(
               "{} tab-separated columns; training and validation files have "
               "{}, test files {}",
               cells.size(),
               fmt::join(format_.labelled.counts, " or "),
               fmt::join(format_.test.counts, " or ")),
           .remedy = "give the task's own .tsv file, as GLUE publishes it"});
    }
    count_ = cells.size();
    return is_test || format_.labelled_header;
  }

  void add(std::string_view line, const TakeRow& take) {
    const Cells cells = cells_of(line);
    try {
      take(row_of(cells));
      ++file_.rows;
    } catch (const DataError& error) {
      if (!format_.skips_damaged) {
        throw;
      }
      if (++file_.skipped == 1) {
        file_.first_skipped = error.what();
      }
    }
  }

  TaskRow row_of(const Cells& cells) const {
    if (cells.size() != count_) {
      throw DataError(
          {.what = "the row has another number of columns than the file",
           .where = lines_.where(),
           .values = fmt::format("{}, not {}", cells.size(), count_)});
    }
    TaskRow row{.id = id_of(cells)};
    TaskRow::Texts texts{.a = text_of(cells, columns_->text_a)};
    if (columns_->text_b) {
      texts.b = text_of(cells, *columns_->text_b);
    }
    row.texts.push_back(std::move(texts));
    if (columns_->label) {
      row.label = label_of(trimmed(
          columns_->label_is_last ? cells.back() : cells[*columns_->label]));
    }
    return row;
  }

  std::int64_t id_of(const Cells& cells) const {
    if (!columns_->id) {
      return file_.rows;
    }
    const std::string_view text = trimmed(cells[*columns_->id]);
    std::int64_t id = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, id);
    if (error != std::errc() || stop != end || id < 0) {
      throw DataError(
          {.what = "the row does not begin with its number",
           .where = lines_.where(),
           .values = quoted(text)});
    }
    return id;
  }

  std::string text_of(const Cells& cells, std::size_t column) const {
    std::string text = clean_text(cells[column]);
    if (text.empty()) {
      throw DataError(
          {.what = "a text is empty",
           .where = lines_.where(),
           .values = fmt::format("column {}", column + 1)});
    }
    return text;
  }

  double label_of(std::string_view text) const {
    if (task_.is_regression()) {
      double value = 0;
      const char* const end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data(), end, value);
      if (error == std::errc() && stop == end && std::isfinite(value)) {
        return value;
      }
      throw DataError(
          {.what = "the score is no number",
           .where = lines_.where(),
           .values = quoted(text)});
    }
    const auto found = std::ranges::find(task_.classes, text);
    if (found == task_.classes.end()) {
      throw DataError(
          {.what = fmt::format("{} has no such label", task_.name),
           .where = lines_.where(),
           .values = fmt::format(
               "{}; the labels are {}",
               quoted(text),
               fmt::join(task_.classes, ", "))});
    }
    return static_cast<double>(found - task_.classes.begin());
  }

  const FinetuneTask& task_;
  const GlueFormat& format_;
  data::LineReader lines_;
  const GlueColumns* columns_ = nullptr;
  std::size_t count_ = 0; ///< columns of every row
  TaskFile file_{};
};

} // namespace

TaskFile read_glue_file(
    const FinetuneTask& task,
    const std::filesystem::path& path,
    const TakeRow& take) {
  return GlueReader(task, path).read(take);
}

} // namespace cairn::evaluate
