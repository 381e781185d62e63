#include "text/sentences/punkt_model.h"

#include "text/files/json_document.h"
#include "text/internal/python_text.h"
#include "text/sentences/punkt_english.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <algorithm>

namespace cairn::text {
namespace {

std::uint64_t pair_of(std::uint32_t first, std::uint32_t second) {
  return std::uint64_t{first} << 32 | second;
}

} // namespace

PunktModel PunktModel::english() {
  return parse(std::string(punkt_english), "the built-in English model");
}

PunktModel PunktModel::parse(const std::string& text, std::string_view name) {
  PunktModel model;
  const std::size_t start = python::skip_space(text, 0);
  if (start < text.size() && text[start] == '{') {
    model.read_json(text, name);
  } else {
    model.read_rules(text, name);
  }
  return model;
}

const PunktWord& PunktModel::find(std::string_view word) const {
  static constexpr PunktWord unknown;
  const auto found = words_.find(word);
  return found == words_.end() ? unknown : found->second;
}

bool PunktModel::belong_together(
    const PunktWord& first,
    const PunktWord& second) const {
  return first.id != 0 && second.id != 0 &&
      pairs_.contains(pair_of(first.id, second.id));
}

PunktWord& PunktModel::add(std::string_view word) {
  const auto next = static_cast<std::uint32_t>(words_.size() + 1);
  return words_.try_emplace(std::string(word), PunktWord{.id = next})
      .first->second;
}

void PunktModel::read_json(const std::string& text, std::string_view name) {
  const JsonDocument document(text, std::string(name));
  for (const auto& [key, value] : document.root().object("the model")) {
    if (key == "abbrev_types") {
      for (const JsonValue& word : value.array(key)) {
        add(word.string("a word of abbrev_types")).is_abbreviation = true;
      }
    } else if (key == "sent_starters") {
      for (const JsonValue& word : value.array(key)) {
        add(word.string("a word of sent_starters")).starts_sentences = true;
      }
    } else if (key == "collocations") {
      for (const JsonValue& item : value.array(key)) {
        const auto pair = item.array("a pair of collocations");
        if (pair.size() != 2) {
          item.refuse("collocations holds a list that is no pair of words");
        }
        const auto id = [&](std::size_t i) {
          return add(pair[i].string("a word of collocations")).id;
        };
        pairs_.insert(pair_of(id(0), id(1)));
      }
    } else if (key == "ortho_context") {
      constexpr std::int64_t all = written::upper | written::lower;
      for (const auto& [word, flags] : value.object(key)) {
        const auto sum = flags.integer("a number of ortho_context");
        if ((sum & ~all) != 0) {
          flags.refuse(fmt::format(
              "ortho_context of \"{}\" is {}, no sum of 2, 4, 8, "
              "16, 32, 64",
              word,
              sum));
        }
        add(word).written = static_cast<std::uint8_t>(sum);
      }
    } else {
      value.refuse(fmt::format("\"{}\" is no part of a sentence model", key));
    }
  }
}

// Reads one abbreviation per line, with or without its last period, in upper or
// lower case. A `#` begins a comment; `include english` adds the built-in
// model.
void PunktModel::read_rules(std::string_view text, std::string_view name) {
  std::string lower;
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    line.remove_prefix(python::skip_space(line, 0));
    line = line.substr(0, python::stripped_size(line));
    if (line.empty()) {
      continue;
    }
    if (line == "include english") {
      PunktModel english = PunktModel::english();
      for (const auto& [known, facts] : words_) {
        english.add(known).is_abbreviation |= facts.is_abbreviation;
      }
      *this = std::move(english);
      continue;
    }
    if (python::skip_word(line, 0) != line.size() || line == ".") {
      throw DataError(
          {.what = fmt::format("\"{}\" is no abbreviation", line),
           .where = fmt::format("{}:{}", name, number),
           .remedy = "give one a line, or the line \"include english\""});
    }
    if (line.ends_with('.')) {
      line.remove_suffix(1);
    }
    python::lower(line, lower);
    add(lower).is_abbreviation = true;
  }
}

} // namespace cairn::text
