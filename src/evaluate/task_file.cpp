#include "evaluate/task_file.h"

#include "base/internal/trimmed.h"
#include "base/internal/utf8.h"
#include "data/internal/byte_stream.h"
#include "data/internal/line_reader.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn::evaluate {
namespace {

using nlohmann::json;

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

std::string all_bytes(const std::filesystem::path& path) {
  constexpr std::size_t most = std::size_t{1} << 34;
  const auto stream = data::open_input(path);
  std::string bytes;
  std::array<char, 1 << 16> piece; // NOLINT: filled by read()
  while (const std::size_t count = stream->read(std::span(piece))) {
    if (bytes.size() + count > most) {
      throw DataError(
          {.what = "a text of more than 16 GiB",
           .where = path.string(),
           .remedy = "evaluate a part of it"});
    }
    bytes.append(piece.data(), count);
  }
  return bytes;
}

void check_utf8(std::string_view text, const std::filesystem::path& path) {
  const std::size_t end = valid_utf8_end(text);
  if (end < text.size()) {
    const auto line =
        std::ranges::count(text.substr(0, end), '\n') + std::ptrdiff_t{1};
    throw DataError(
        {.what = "not UTF-8 text",
         .where = fmt::format("{}:{}", path.string(), line),
         .values = fmt::format(
             "byte {:#04x}",
             static_cast<unsigned>(static_cast<unsigned char>(text[end])))});
  }
}

} // namespace

std::string read_text(const std::filesystem::path& path) {
  std::string text = all_bytes(path);
  if (text.starts_with(byte_order_mark)) {
    text.erase(0, byte_order_mark.size());
  }
  check_utf8(text, path);
  if (trimmed(text).empty()) {
    throw DataError({.what = "the file holds no text", .where = path.string()});
  }
  return text;
}

void for_each_object(
    const std::filesystem::path& path,
    const std::function<void(const json& object, const std::string& where)>&
        visit) {
  data::LineReader lines(path);
  bool any = false;
  while (auto line = lines.next()) {
    if (lines.number() == 1 && line->starts_with(byte_order_mark)) {
      line->remove_prefix(byte_order_mark.size());
    }
    if (trimmed(*line).empty()) {
      continue;
    }
    json object;
    try {
      object = json::parse(*line);
    } catch (const json::exception& error) {
      throw DataError(
          {.what = "a line that is no JSON",
           .where = lines.where(),
           .values = well_formed_utf8(error.what()),
           .remedy = "each line of the file holds one JSON object"});
    }
    if (!object.is_object()) {
      throw DataError(
          {.what = "a line that holds no JSON object",
           .where = lines.where(),
           .values = object.type_name()});
    }
    any = true;
    visit(object, lines.where());
  }
  if (!any) {
    throw DataError(
        {.what = "no line holds an object", .where = path.string()});
  }
}

std::string text_under(
    const json& object,
    std::string_view key,
    const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) {
    throw DataError(
        {.what = fmt::format("\"{}\" is to be a text", key),
         .where = where,
         .values = found == object.end() ? "it is missing"
                                         : std::string(found->type_name())});
  }
  return found->get<std::string>();
}

bool is_json_file(const std::filesystem::path& path) {
  std::filesystem::path name = path.filename();
  for (const char* packed : {".gz", ".zst", ".xz", ".bz2"}) {
    if (name.extension() == packed) {
      name.replace_extension();
      break;
    }
  }
  return name.extension() == ".json" || name.extension() == ".jsonl";
}

} // namespace cairn::evaluate
