#include "launch/schedulers/yaml.h"

#include "base/internal/utf8.h"
#include "launch/escaped.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

namespace cairn::launch {
namespace {

/// True for control characters, and for characters that some YAML readers take
/// for line ends or refuse.
bool needs_escape(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 ||
      c == 0xfeff || c == 0xfffe || c == 0xffff;
}

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (auto rest = text; !rest.empty();) {
    const Utf8Char c = decode_utf8(rest.data(), rest.data() + rest.size());
    if (!c.valid()) {
      throw ConfigError(
          {.what = fmt::format("{} is not UTF-8", escaped(text)),
           .remedy = "YAML cannot hold it; use another name"});
    }
    if (c.code_point == '"' || c.code_point == '\\') {
      result += '\\';
      result += rest.front();
    } else if (c.code_point == '\n') {
      result += "\\n";
    } else if (needs_escape(c.code_point)) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c.code_point));
    } else {
      result += rest.substr(0, c.length);
    }
    rest.remove_prefix(c.length);
  }
  return result + "\"";
}

/// True when every YAML reader takes the text for a string without quotes.
/// Words such as `no`, and numbers, are not strings to them.
bool is_plain(std::string_view text) {
  constexpr std::array words =
      {"true", "false", "yes", "no", "on", "off", "null", "y", "n"};
  const auto is_word = [&](const char* word) {
    return std::equal(
        text.begin(),
        text.end(),
        word,
        word + std::string_view(word).size(),
        [](char a, char b) {
          return std::tolower(static_cast<unsigned char>(a)) == b;
        });
  };
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return !text.empty() && is_letter(text.front()) &&
      std::all_of(
          text.begin(),
          text.end(),
          [&](char c) {
            return is_letter(c) || (c >= '0' && c <= '9') || c == '_' ||
                c == '-' || c == '.' || c == '/';
          }) &&
      std::none_of(words.begin(), words.end(), is_word);
}

std::string scalar(std::string_view text) {
  return is_plain(text) ? std::string(text) : in_quotes(text);
}

struct Writer {
  std::string text;

  /// Writes a value after `key:` or `-` on the same line; maps and lists
  /// continue below, at `indent`.
  void value(const Yaml& node, std::size_t indent) {
    if (const auto* string = std::get_if<std::string>(&node.value)) {
      text += " " + scalar(*string) + "\n";
    } else if (const auto* number = std::get_if<std::int64_t>(&node.value)) {
      text += fmt::format(" {}\n", *number);
    } else if (const auto* flag = std::get_if<bool>(&node.value)) {
      text += *flag ? " true\n" : " false\n";
    } else if (const auto* items = std::get_if<Yaml::List>(&node.value)) {
      text += items->empty() ? " []\n" : "\n";
      list(*items, indent);
    } else {
      const auto& entries = std::get<Yaml::Map>(node.value);
      text += entries.empty() ? " {}\n" : "\n";
      map(entries, indent, indent);
    }
  }

  void list(const Yaml::List& items, std::size_t indent) {
    for (const Yaml& item : items) {
      text += std::string(indent, ' ') + "-";
      const auto* entries = std::get_if<Yaml::Map>(&item.value);
      if (entries != nullptr && !entries->empty()) {
        text += " ";
        map(*entries, 0, indent + 2); // begins on the line of the dash
      } else {
        value(item, indent + 2);
      }
    }
  }

  void map(
      const Yaml::Map& entries,
      std::size_t first_indent,
      std::size_t indent) {
    auto here = first_indent;
    for (const auto& [key, node] : entries) {
      text += std::string(here, ' ') + scalar(key) + ":";
      value(node, indent + 2);
      here = indent;
    }
  }
};

} // namespace

std::string to_yaml(const Yaml& document) {
  Writer writer;
  if (const auto* entries = std::get_if<Yaml::Map>(&document.value);
      entries != nullptr && !entries->empty()) {
    writer.map(*entries, 0, 0);
  } else {
    writer.text = "---";
    writer.value(document, 0);
  }
  return writer.text;
}

} // namespace cairn::launch
