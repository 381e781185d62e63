#include "corpus/clean/document_line.h"

#include <cairn/base/error.h>

#include "corpus/output/json_text.h"
#include "data/internal/line_reader.h"

#include <fmt/core.h>
#include <simdjson.h>

#include <utility>

namespace cairn::corpus {

static_assert(data::LineBlock::padding >= simdjson::SIMDJSON_PADDING);

struct DocumentLine::State {
  std::string text_key;
  std::string url_key;
  simdjson::dom::parser parser;
  simdjson::ondemand::parser finder;
  std::string_view line;
  std::string_view text;
  std::optional<std::string_view> url;
};

/// The text as it stands in the line, with everything up to the next token.
/// Only the position matters: parse() has checked the line.
std::string_view DocumentLine::text_token(State& s) {
  simdjson::ondemand::document document = s.finder.iterate(
      s.line.data(),
      s.line.size(),
      s.line.size() + data::LineBlock::padding);
  for (auto field : document.get_object()) {
    const std::string_view key = field.unescaped_key();
    if (key == s.text_key) {
      return field.value().raw_json_token();
    }
  }
  throw InternalError({.what = "the text of a parsed line is gone"});
}

DocumentLine::DocumentLine(std::string text_key, std::string url_key)
    : state_(std::make_unique<State>()) {
  state_->text_key = std::move(text_key);
  state_->url_key = std::move(url_key);
}

DocumentLine::~DocumentLine() = default;

void DocumentLine::parse(std::string_view line) {
  State& s = *state_;
  s.line = line;
  simdjson::dom::element document;
  // false: no copy, because the padding is there.
  if (const auto error =
          s.parser.parse(line.data(), line.size(), false).get(document)) {
    throw DataError(
        {.what =
             fmt::format("is no JSON: {}", simdjson::error_message(error))});
  }
  simdjson::dom::object object;
  if (document.get(object) != simdjson::SUCCESS) {
    throw DataError({.what = "is no JSON object"});
  }
  const auto text = object.at_key(s.text_key);
  if (text.error() != simdjson::SUCCESS) {
    throw DataError({.what = fmt::format("has no key \"{}\"", s.text_key)});
  }
  if (text.get(s.text) != simdjson::SUCCESS) {
    throw DataError({.what = fmt::format("\"{}\" is no text", s.text_key)});
  }
  std::string_view url;
  s.url.reset();
  if (object.at_key(s.url_key).get(url) == simdjson::SUCCESS) {
    s.url = url;
  }
}

std::string_view DocumentLine::text() const {
  return state_->text;
}

std::optional<std::string_view> DocumentLine::url() const {
  return state_->url;
}

std::string DocumentLine::with_text(std::string_view text) {
  State& s = *state_;
  std::string out;
  out.reserve(s.line.size() + text.size() / 8 + 1);
  if (text == s.text) {
    out = s.line;
  } else {
    std::string_view token = text_token(s);
    token = token.substr(0, token.rfind('"') + 1);
    const auto begin = static_cast<std::size_t>(token.data() - s.line.data());
    out.append(s.line, 0, begin);
    append_json_string(out, text);
    out.append(s.line, begin + token.size());
  }
  out += '\n';
  return out;
}

} // namespace cairn::corpus
