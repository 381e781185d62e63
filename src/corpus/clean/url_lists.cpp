#include "corpus/internal/url_lists.h"

#include "base/internal/trimmed.h"
#include "corpus/clean/text_digest.h"
#include "corpus/clean/url_filter.h"
#include "corpus/internal/output_file.h"
#include "data/internal/line_reader.h"

#include <cairn/base/error.h>

#include <optional>
#include <unordered_set>

namespace cairn::corpus {

namespace {

std::optional<UrlReason> url_reason_of(UrlVerdict verdict) {
  switch (verdict) {
    case UrlVerdict::fine:
      return std::nullopt;
    case UrlVerdict::blocked_domain:
      return UrlReason::domain;
    case UrlVerdict::blocked_extension:
      return UrlReason::extension;
    case UrlVerdict::too_short:
      return UrlReason::too_short;
    case UrlVerdict::malformed:
      return UrlReason::malformed;
  }
  throw InternalError({.what = "an unknown verdict on a URL"});
}

} // namespace

std::string_view name_of(UrlReason reason) {
  constexpr std::array<std::string_view, url_reasons> names{
      "blocked domain",
      "blocked file ending",
      "8 characters or fewer",
      "malformed",
      "there before"};
  return names[static_cast<std::size_t>(reason)];
}

UrlListReport filter_url_lists(const UrlListOptions& options) {
  const UrlFilter filter(options.more_blocked_domains);
  OutputFile output(options.output);
  std::unordered_set<TextDigest, TextDigest::Hash> seen;
  UrlListReport report;
  for (const std::filesystem::path& input : options.inputs) {
    data::BlockReader blocks(input, {});
    for (data::LineBlock block; blocks.next(block);) {
      std::string_view text = block.text();
      while (!text.empty()) {
        const std::string_view url = trimmed(data::take_line(text));
        if (url.empty()) {
          continue;
        }
        ++report.read;
        auto reason = url_reason_of(filter.judge(url));
        if (!reason && !seen.insert(digest_of(url)).second) {
          reason = UrlReason::duplicate;
        }
        if (reason) {
          ++report.dropped[static_cast<std::size_t>(*reason)];
          continue;
        }
        ++report.kept;
        output.write(std::string(url) + "\n");
      }
      if (options.on_progress) {
        options.on_progress(block.stored);
      }
    }
  }
  output.commit();
  return report;
}

} // namespace cairn::corpus
