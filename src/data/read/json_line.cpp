#include "data/internal/json_line.h"

#include "base/internal/utf8.h"
#include "data/internal/line_reader.h"
#include "data/read/check_json.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace cairn::data {
namespace {

using simdjson::error_code;
namespace ondemand = simdjson::ondemand;

static_assert(LineBlock::padding >= simdjson::SIMDJSON_PADDING);

/// Longest line for the parser that is kept. A parser's memory is several times
/// its longest line, so a longer line gets a parser of its own.
constexpr std::size_t ordinary_line = 4 << 20;

[[noreturn]] void refuse(error_code error, std::string_view line) {
  if (error == simdjson::UTF8_ERROR) {
    throw DataError(
        {.what = "invalid UTF-8",
         .values =
             fmt::format("at byte {} of the line", valid_utf8_end(line) + 1),
         .remedy = "convert the file to UTF-8"});
  }
  std::string_view reason = simdjson::error_message(error);
  reason = reason.substr(0, reason.find_last_not_of('.') + 1);
  throw DataError(
      {.what = fmt::format("not a JSON object: {}", reason),
       .remedy =
           "every line must be one JSON object, as in {\"text\": \"…\"}"});
}

std::string_view name_of(ondemand::json_type type) {
  switch (type) {
    case ondemand::json_type::array:
      return "a list that holds other things than strings";
    case ondemand::json_type::object:
      return "an object";
    case ondemand::json_type::number:
      return "a number";
    case ondemand::json_type::string:
      return "a string";
    case ondemand::json_type::boolean:
      return "true or false";
    case ondemand::json_type::null:
      return "null";
  }
  return "something else";
}

[[noreturn]] void refuse_value(
    const std::string& key,
    ondemand::json_type type) {
  throw DataError(
      {.what = fmt::format(
           "the value of \"{}\" is {}, not a string",
           shown(key),
           name_of(type)),
       .remedy = "name another key with --json-keys"});
}

[[noreturn]] void refuse_missing(
    const std::string& key,
    ondemand::document& document) {
  std::vector<std::string> keys;
  ondemand::object object;
  if (!document.get_object().get(object)) {
    for (auto field : object) {
      std::string_view name;
      if (keys.size() == 20 || field.unescaped_key().get(name)) {
        break;
      }
      keys.push_back(shown(name));
    }
  }
  throw DataError(
      {.what = fmt::format("has no key \"{}\"", shown(key)),
       .values = keys.empty()
           ? std::string("it has none at all")
           : fmt::format("its keys: {}", fmt::join(keys, ", ")),
       .remedy = "name one of them with --json-keys"});
}

constexpr char part_end = '\xff'; ///< no UTF-8 contains it

/// The token of a string without the spaces after it.
std::string_view with_quotes(std::string_view token) {
  return token.substr(0, token.rfind('"') + 1);
}

/// The closing quote of the string whose content begins at `from`.
const char* closing_quote(const char* from, const char* end) {
  for (const char* at = from;; ++at) {
    at = static_cast<const char*>(
        std::memchr(at, '"', static_cast<std::size_t>(end - at)));
    const char* before = at;
    while (before != from && before[-1] == '\\') {
      --before;
    }
    if ((at - before) % 2 == 0) {
      return at;
    }
  }
}

/// Resolves the strings between the first and the last quote into parts.
TextParts resolve(std::span<char> json, bool is_list) {
  char* const begin = json.data() + 1;
  char* to = begin;
  const char* from = begin;
  const char* const end = json.data() + json.size();
  for (;;) {
    const char* const close = is_list ? closing_quote(from, end) : end - 1;
    to = unescape({from, static_cast<std::size_t>(close - from)}, to);
    *to++ = part_end; // not past the closing quote
    if (close + 1 == end) {
      return TextParts({begin, static_cast<std::size_t>(to - begin)});
    }
    from = std::find(close + 1, end, '"') + 1;
  }
}

} // namespace

TextParts::iterator::iterator(const char* at, const char* end)
    : part_(at, 0), end_(end) {
  if (at != end) {
    const auto* const stop = static_cast<const char*>(
        std::memchr(at, part_end, static_cast<std::size_t>(end - at)));
    part_ = {at, static_cast<std::size_t>(stop - at)};
  }
}

TextParts::iterator& TextParts::iterator::operator++() {
  *this = iterator(part_.data() + part_.size() + 1, end_);
  return *this;
}

TextParts::iterator TextParts::begin() const {
  return {bytes_.data(), bytes_.data() + bytes_.size()};
}

TextParts::iterator TextParts::end() const {
  return {bytes_.data() + bytes_.size(), bytes_.data() + bytes_.size()};
}

struct JsonLineParser::State {
  explicit State(std::vector<std::string> wanted)
      : keys(std::move(wanted)), texts(keys.size()), found(keys.size()) {}

  void read(ondemand::parser& parser, std::string_view line);
  error_code read_fields(ondemand::document& document);
  error_code read_value(std::size_t key, ondemand::value value);
  error_code read_list(std::size_t key, ondemand::value value);

  std::vector<std::string> keys;
  std::vector<Text> texts;
  /// The raw strings of each key, from the first quote to the last.
  std::vector<std::string_view> found;
  std::vector<bool> there; ///< keys that the line has
  ondemand::parser parser;
};

error_code JsonLineParser::State::read_list(
    std::size_t key,
    ondemand::value value) {
  ondemand::array array;
  if (const auto error = value.get_array().get(array)) {
    return error;
  }
  for (auto result : array) {
    ondemand::value item;
    ondemand::json_type type{};
    if (const auto error = std::move(result).get(item)) {
      return error;
    }
    if (const auto error = item.type().get(type)) {
      return error;
    }
    if (type != ondemand::json_type::string) {
      refuse_value(keys[key], ondemand::json_type::array);
    }
    const std::string_view string = with_quotes(item.raw_json_token());
    const char* const first =
        found[key].empty() ? string.data() : found[key].data();
    found[key] = {
        first,
        static_cast<std::size_t>(string.data() + string.size() - first)};
  }
  return simdjson::SUCCESS;
}

error_code JsonLineParser::State::read_value(
    std::size_t key,
    ondemand::value value) {
  ondemand::json_type type{};
  if (const auto error = value.type().get(type)) {
    return error;
  }
  // The last one counts if a key is repeated.
  if (there[key] && !escapes_are_whole(found[key])) {
    return simdjson::STRING_ERROR;
  }
  found[key] = {};
  there[key] = true;
  texts[key].is_list = type == ondemand::json_type::array;
  if (texts[key].is_list) {
    return read_list(key, value);
  }
  if (type != ondemand::json_type::string) {
    refuse_value(keys[key], type);
  }
  found[key] = with_quotes(value.raw_json_token());
  return simdjson::SUCCESS;
}

error_code JsonLineParser::State::read_fields(ondemand::document& document) {
  ondemand::object object;
  if (const auto error = document.get_object().get(object)) {
    return error;
  }
  there.assign(keys.size(), false);
  for (auto result : object) {
    ondemand::field field;
    if (const auto error = std::move(result).get(field)) {
      return error;
    }
    std::string_view name;
    if (const auto error = field.unescaped_key().get(name)) {
      return error;
    }
    const auto key = std::find(keys.begin(), keys.end(), name);
    const auto error = key == keys.end()
        ? check_json(field.value())
        : read_value(
              static_cast<std::size_t>(key - keys.begin()),
              field.value());
    if (error) {
      return error;
    }
  }
  if (!document.current_location().error()) {
    return simdjson::TRAILING_CONTENT;
  }
  return simdjson::SUCCESS;
}

void JsonLineParser::State::read(
    ondemand::parser& used,
    std::string_view line) {
  ondemand::document document;
  const auto size = line.size() + LineBlock::padding;
  auto error = used.iterate(line, size).get(document);
  if (!error) {
    error = read_fields(document);
  }
  if (error) {
    refuse(error, line);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!there[i] && !used.iterate(line, size).get(document)) {
      refuse_missing(keys[i], document);
    }
  }
}

JsonLineParser::JsonLineParser(std::vector<std::string> keys)
    : state_(std::make_unique<State>(std::move(keys))) {}
JsonLineParser::~JsonLineParser() = default;
JsonLineParser::JsonLineParser(JsonLineParser&&) noexcept = default;

void JsonLineParser::parse(std::span<char> line) {
  const std::string_view text(line.data(), line.size());
  if (text.size() <= ordinary_line) {
    state_->read(state_->parser, text);
  } else {
    ondemand::parser large;
    state_->read(large, text);
  }
  for (std::size_t i = 0; i < state_->keys.size(); ++i) {
    const std::string_view found = state_->found[i];
    const auto begin = static_cast<std::size_t>(found.data() - line.data());
    state_->texts[i].parts = found.empty()
        ? TextParts()
        : resolve(line.subspan(begin, found.size()), state_->texts[i].is_list);
  }
}

std::span<const JsonLineParser::Text> JsonLineParser::texts() const noexcept {
  return state_->texts;
}

} // namespace cairn::data
