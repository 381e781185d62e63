#include "data/read/check_json.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace cairn::data {
namespace {

using simdjson::error_code;
namespace ondemand = simdjson::ondemand;

constexpr int deepest = 1000; ///< about the depth Python's json reads

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_hexadecimal(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// Removes the digits at the front; true when there was one.
bool take_digits(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  const auto count = static_cast<std::size_t>(end - text.begin());
  text.remove_prefix(count);
  return count > 0;
}

bool is_number(std::string_view text) {
  if (text.starts_with('-')) {
    text.remove_prefix(1);
  }
  if (text.starts_with('0')) {
    text.remove_prefix(1);
  } else if (!take_digits(text)) {
    return false;
  }
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!take_digits(text)) {
      return false;
    }
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) {
      text.remove_prefix(1);
    }
    if (!take_digits(text)) {
      return false;
    }
  }
  return text.empty();
}

bool is_scalar(std::string_view text) {
  if (text.starts_with('"')) {
    return text.size() >= 2 && text.ends_with('"') &&
        escapes_are_whole(text.substr(1, text.size() - 2));
  }
  return text == "true" || text == "false" || text == "null" ||
      is_number(text) || text == "NaN" || text == "Infinity" ||
      text == "-Infinity"; // Python writes the last three
}

error_code check(ondemand::value value, int depth);

template <class Container, class Part>
error_code check_all(Container container, int depth, const Part& part) {
  if (depth == deepest) {
    return simdjson::DEPTH_ERROR;
  }
  for (auto result : container) {
    ondemand::value value;
    if (const auto error = part(std::move(result)).get(value)) {
      return error;
    }
    if (const auto error = check(value, depth + 1)) {
      return error;
    }
  }
  return simdjson::SUCCESS;
}

error_code check_array(ondemand::value value, int depth) {
  ondemand::array array;
  if (const auto error = value.get_array().get(array)) {
    return error;
  }
  return check_all(array, depth, [](auto item) { return item; });
}

/// The key between its quotes. (The closing quote is known to exist.)
std::string_view raw_key(ondemand::field& field) {
  const char* const begin = field.key().raw();
  const char* end = begin;
  while (*end != '"') {
    end += *end == '\\' ? 2 : 1;
  }
  return {begin, static_cast<std::size_t>(end - begin)};
}

error_code check_object(ondemand::value value, int depth) {
  ondemand::object object;
  if (const auto error = value.get_object().get(object)) {
    return error;
  }
  return check_all(
      object,
      depth,
      [](auto result) -> simdjson::simdjson_result<ondemand::value> {
        ondemand::field field;
        if (const auto error = std::move(result).get(field)) {
          return error;
        }
        if (!escapes_are_whole(raw_key(field))) {
          return simdjson::STRING_ERROR;
        }
        return ondemand::value(field.value());
      });
}

error_code check(ondemand::value value, int depth) {
  std::string_view token = value.raw_json_token();
  if (token.starts_with('[')) {
    return check_array(value, depth);
  }
  if (token.starts_with('{')) {
    return check_object(value, depth);
  }
  token = token.substr(0, token.find_last_not_of(" \t\r\n") + 1);
  if (!is_scalar(token)) {
    throw DataError(
        {.what = fmt::format(
             "not a JSON object: {} is no value",
             token.empty() ? "nothing" : shown(token)),
         .remedy =
             "every line must be one JSON object, as in {\"text\": \"…\"}"});
  }
  return simdjson::SUCCESS;
}

} // namespace

error_code check_json(ondemand::value value) {
  return check(value, 0);
}

bool escapes_are_whole(std::string_view between_quotes) {
  for (auto at = between_quotes.find('\\'); at != std::string_view::npos;
       at = between_quotes.find('\\', at)) {
    const std::string_view rest = between_quotes.substr(at + 1);
    constexpr std::string_view letters = "\"\\/bfnrt";
    if (rest.empty()) {
      return false;
    }
    if (rest[0] == 'u') {
      const auto digits = rest.substr(1, 4);
      if (digits.size() < 4 ||
          !std::all_of(digits.begin(), digits.end(), is_hexadecimal)) {
        return false;
      }
      at += 6;
    } else if (letters.find(rest[0]) != std::string_view::npos) {
      at += 2;
    } else {
      return false;
    }
  }
  return true;
}

std::string shown(std::string_view text) {
  constexpr std::size_t longest = 80;
  std::size_t end = std::min(text.size(), longest);
  while (end < text.size() && end > 0 &&
         (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
    --end; // do not cut a character
  }
  std::string out;
  for (std::size_t i = 0; i < end; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F move the cursor too.
    const bool control = byte == 0xc2 && i + 1 < end &&
        static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else if (control) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
    } else {
      out += text[i];
    }
  }
  return end < text.size() ? out + "…" : out;
}

} // namespace cairn::data
