#include "evaluate/hellaswag_text.h"

#include "evaluate/task_file.h"
#include "text/internal/python_text.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <cstdint>
#include <system_error>

namespace cairn::evaluate {
namespace {

using nlohmann::json;

std::string replaced(
    std::string_view text,
    std::string_view from,
    std::string_view to) {
  std::string result;
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at != std::string_view::npos;
       at = text.find(from, done)) {
    result += text.substr(done, at - done);
    result += to;
    done = at + from.size();
  }
  result += text.substr(done);
  return result;
}

/// Without the shortest stretches in brackets that stay within a line.
std::string without_brackets(std::string_view text) {
  std::string result;
  std::size_t done = 0;
  while (true) {
    const std::size_t open = text.find('[', done);
    if (open == std::string_view::npos) {
      break;
    }
    const std::size_t end = text.find_first_of("]\n", open);
    if (end == std::string_view::npos) {
      break;
    }
    const bool closed = text[end] == ']';
    result += text.substr(done, (closed ? open : end) - done);
    done = closed ? end + 1 : end;
  }
  result += text.substr(done);
  return result;
}

/// The label is a number in the original files, and a text in copies of them.
std::size_t label_of(
    const json& object,
    std::size_t endings,
    const std::string& where) {
  const auto found = object.find("label");
  std::int64_t label = -1;
  if (found != object.end() && found->is_number_integer()) {
    label = found->get<std::int64_t>();
  } else if (found != object.end() && found->is_string()) {
    const auto& text = found->get_ref<const std::string&>();
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, label);
    label = error == std::errc() && stop == end ? label : -1;
  }
  if (label < 0 || label >= static_cast<std::int64_t>(endings)) {
    throw DataError(
        {.what = "\"label\" is to be the number of the right ending",
         .where = where,
         .values = found == object.end()
             ? "it is missing"
             : found->dump(-1, ' ', false, json::error_handler_t::replace),
         .remedy = "use the file with training or validation examples; those "
                   "for the test have no labels"});
  }
  return static_cast<std::size_t>(label);
}

std::vector<std::string> endings_of(
    const json& object,
    const std::string& where) {
  const auto found = object.find("endings");
  std::vector<std::string> endings;
  if (found != object.end() && found->is_array()) {
    for (const json& ending : *found) {
      if (!ending.is_string()) {
        throw DataError(
            {.what = "an ending that is no text",
             .where = where,
             .values = ending.type_name()});
      }
      endings.push_back(ending.get<std::string>());
    }
  }
  if (endings.size() < 2) {
    throw DataError(
        {.what = "\"endings\" is to be a list of texts, two at least",
         .where = where});
  }
  return endings;
}

} // namespace

std::string without_wikihow_marks(std::string_view text) {
  return replaced(
      without_brackets(
          replaced(text::python::stripped(text), " [title]", ". ")),
      "  ",
      " ");
}

EndingsChoice hellaswag_choice(
    const json& object,
    bool plain,
    const std::string& where) {
  EndingsChoice choice{.endings = endings_of(object, where)};
  choice.right = label_of(object, choice.endings.size(), where);
  if (plain) {
    choice.context = text_under(object, "ctx", where);
  } else {
    choice.context = without_wikihow_marks(fmt::format(
        "{}: {} {}",
        text_under(object, "activity_label", where),
        text_under(object, "ctx_a", where),
        text::python::capitalize(text_under(object, "ctx_b", where))));
    for (std::string& ending : choice.endings) {
      ending = without_wikihow_marks(ending);
    }
  }
  if (text::python::stripped(choice.context).empty()) {
    throw DataError({.what = "a context without words", .where = where});
  }
  return choice;
}

} // namespace cairn::evaluate
