#include <cairn/data/wikitext.h>

#include "base/internal/trimmed.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <simdjson.h>

namespace cairn::data {

int wikitext_heading_level(std::string_view line) {
  std::string_view rest = trimmed(line);
  int level = 0;
  while (rest.size() > 1 && rest.front() == '=' && rest.back() == '=') {
    rest = trimmed(rest.substr(1, rest.size() - 2));
    ++level;
  }
  return rest.empty() ? 0 : level;
}

std::vector<std::string_view> wikitext_lines(
    std::string_view text,
    std::string_view name,
    WikiTextOptions options) {
  std::vector<std::string_view> lines;
  for (std::size_t at = 0, number = 1; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (trimmed(line).empty()) {
      continue;
    }
    if (!simdjson::validate_utf8(line)) {
      throw DataError(
          {.what = "not UTF-8 text",
           .where = fmt::format("{}:{}", name, number),
           .remedy = "unpack the archive, and give its .tokens file"});
    }
    if (options.headings || wikitext_heading_level(line) == 0) {
      lines.push_back(line);
    }
  }
  return lines;
}

WikiText::WikiText(const std::filesystem::path& file, WikiTextOptions options)
    : file_(file, MappedFile::Advice::sequential) {
  const auto bytes = file_.bytes();
  lines_ = wikitext_lines(
      {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
      file.string(),
      options);
}

} // namespace cairn::data
