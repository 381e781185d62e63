#include "text/schemes/char_vocabulary.h"

#include "base/internal/utf8.h"
#include "text/files/json_document.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace cairn::text {
namespace {

std::u32string code_points(std::string_view text, const std::string& name) {
  std::u32string result;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    const Utf8Char c = decode_utf8(at, end);
    if (!c.valid()) {
      throw DataError(
          {.what = "a character vocabulary needs well-formed UTF-8",
           .where = name,
           .values = fmt::format("byte {}", at - text.data())});
    }
    result.push_back(c.code_point);
    at += c.length;
  }
  return result;
}

} // namespace

CharVocabulary CharVocabulary::of(
    std::string_view text,
    const std::string& name) {
  // Decodes a part at a time, since texts may be large.
  std::set<char32_t> seen;
  constexpr std::size_t at_once = std::size_t{1} << 20;
  while (!text.empty()) {
    std::size_t size = std::min(at_once, text.size());
    while (size < text.size() &&
           (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) {
      ++size;
    }
    for (const char32_t c : code_points(text.substr(0, size), name)) {
      seen.insert(c);
    }
    text.remove_prefix(size);
  }
  if (seen.empty()) {
    throw DataError({.what = "the text has no characters", .where = name});
  }
  return {std::u32string(seen.begin(), seen.end())};
}

CharVocabulary CharVocabulary::load(const std::filesystem::path& file) {
  const JsonDocument document(file);
  const JsonValue root = document.root();
  const auto type = root.at("type").string("\"type\"");
  if (type != "CharTokenizer") {
    root.refuse(fmt::format("not a CharTokenizer but \"{}\"", type));
  }
  CharVocabulary vocabulary{code_points(
      root.at("characters").string("\"characters\""),
      file.string())};
  const auto& characters = vocabulary.characters;
  const bool sorted =
      std::adjacent_find(
          characters.begin(),
          characters.end(),
          [](char32_t a, char32_t b) { return a >= b; }) == characters.end();
  if (characters.empty() || !sorted) {
    root.refuse("\"characters\" must be some, each once, in sorted order");
  }
  return vocabulary;
}

void CharVocabulary::save(const std::filesystem::path& file) const {
  std::string text;
  for (const char32_t c : characters) {
    append_utf8(text, c);
  }
  nlohmann::ordered_json json;
  json["type"] = "CharTokenizer";
  json["characters"] = text;
  write_file_atomically(file, json.dump() + "\n");
}

} // namespace cairn::text
