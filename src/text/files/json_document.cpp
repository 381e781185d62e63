#include "text/files/json_document.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace cairn::text {
namespace {

constexpr std::uint64_t file_limit = 256U << 20U;

/// The line where a text is broken. simdjson is fast but says little about the
/// place, so a parser that counts bytes is asked.
std::string place(const std::string& text, const std::string& name) {
  struct Counter : nlohmann::json::json_sax_t {
    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(std::int64_t) override { return true; }
    bool number_unsigned(std::uint64_t) override { return true; }
    bool number_float(double, const std::string&) override { return true; }
    bool string(std::string&) override { return true; }
    bool binary(nlohmann::json::binary_t&) override { return true; }
    bool start_object(std::size_t) override { return true; }
    bool key(std::string&) override { return true; }
    bool end_object() override { return true; }
    bool start_array(std::size_t) override { return true; }
    bool end_array() override { return true; }
    bool parse_error(
        std::size_t at,
        const std::string&,
        const nlohmann::json::exception&) override {
      position = at;
      return false;
    }
    std::optional<std::size_t> position;
  } counter;
  nlohmann::json::sax_parse(text, &counter);
  if (!counter.position) {
    return name;
  }
  const auto end = std::min(*counter.position, text.size());
  const auto line = 1 + std::count(text.begin(), text.begin() + end, '\n');
  return fmt::format("{}:{}", name, line);
}

/// True when digits beside the character belong to a number with a fraction or
/// an exponent.
bool is_part_of_number(char c) {
  return c == '.' || c == 'e' || c == 'E' || c == '+';
}

/// The text with an exponent behind every whole number of 19 digits or more, so
/// that simdjson reads it as a floating-point number. Hugging Face's
/// tokenizer_config.json has 1000000000000000019884624838656 where a tokenizer
/// knows no greatest length, and simdjson refuses whole numbers beyond 64 bits.
std::string with_long_numbers_as_floats(const std::string& text) {
  constexpr std::size_t most_digits = 18;
  std::string result;
  result.reserve(text.size() + 64);
  bool in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (in_string && c == '\\' && i + 1 < text.size()) {
      result.append(text, i, 2);
      i += 2;
      continue;
    }
    in_string ^= c == '"';
    if (in_string || c < '0' || c > '9') {
      result += c;
      ++i;
      continue;
    }
    const std::size_t end =
        std::min(text.find_first_not_of("0123456789", i), text.size());
    result.append(text, i, end - i);
    const bool whole = (i == 0 || !is_part_of_number(text[i - 1])) &&
        (end == text.size() || !is_part_of_number(text[end]));
    if (whole && end - i > most_digits) {
      result += "e0";
    }
    i = end;
  }
  return result;
}

} // namespace

JsonDocument::JsonDocument(const std::filesystem::path& file)
    : JsonDocument(read_file(file, file_limit), file.string()) {}

JsonDocument::JsonDocument(const std::string& text, std::string name)
    : name_(std::move(name)) {
  auto error = parser_.parse(text).get(root_);
  if (error != simdjson::SUCCESS) {
    error = parser_.parse(with_long_numbers_as_floats(text)).get(root_);
  }
  if (error != simdjson::SUCCESS) {
    throw DataError(
        {.what = fmt::format("not JSON: {}", simdjson::error_message(error)),
         .where = place(text, name_)});
  }
}

void JsonValue::refuse(std::string what) const {
  throw DataError({.what = std::move(what), .where = *file_});
}

JsonValue::Members JsonValue::object(std::string_view what) const {
  simdjson::dom::object object;
  if (element_.get(object) != simdjson::SUCCESS) {
    refuse(fmt::format("{} is not a JSON object", what));
  }
  Members members;
  for (const auto field : object) {
    members.emplace_back(field.key, JsonValue(field.value, *file_));
  }
  return members;
}

std::vector<JsonValue> JsonValue::array(std::string_view what) const {
  simdjson::dom::array array;
  if (element_.get(array) != simdjson::SUCCESS) {
    refuse(fmt::format("{} is not a JSON array", what));
  }
  std::vector<JsonValue> values;
  for (const auto element : array) {
    values.emplace_back(element, *file_);
  }
  return values;
}

std::string_view JsonValue::string(std::string_view what) const {
  std::string_view text;
  if (element_.get(text) != simdjson::SUCCESS) {
    refuse(fmt::format("{} is not a string", what));
  }
  return text;
}

bool JsonValue::boolean(std::string_view what) const {
  bool value = false;
  if (element_.get(value) != simdjson::SUCCESS) {
    refuse(fmt::format("{} is neither true nor false", what));
  }
  return value;
}

std::int64_t JsonValue::integer(std::string_view what) const {
  std::int64_t value = 0;
  if (element_.get(value) != simdjson::SUCCESS) {
    refuse(fmt::format("{} is not a whole number", what));
  }
  return value;
}

TokenId JsonValue::token_id(std::string_view token) const {
  std::int64_t value = -1;
  if (element_.get(value) != simdjson::SUCCESS || value < 0 ||
      value > std::numeric_limits<TokenId>::max()) {
    refuse(fmt::format("\"{}\" has no whole number for its id", token));
  }
  return static_cast<TokenId>(value);
}

bool JsonValue::is_falsy() const {
  bool truth = true;
  double number = 1;
  std::string_view text = "some";
  return element_.is_null() ||
      (element_.get(truth) == simdjson::SUCCESS && !truth) ||
      (element_.get(number) == simdjson::SUCCESS && number == 0) ||
      (element_.get(text) == simdjson::SUCCESS && text.empty());
}

std::optional<JsonValue> JsonValue::find(std::string_view name) const {
  simdjson::dom::element value;
  if (element_.at_key(name).get(value) != simdjson::SUCCESS ||
      value.is_null()) {
    return std::nullopt;
  }
  return JsonValue(value, *file_);
}

JsonValue JsonValue::at(std::string_view name) const {
  if (const auto value = find(name)) {
    return *value;
  }
  refuse(fmt::format("\"{}\" is missing", name));
}

} // namespace cairn::text
