#include "corpus/clean/document_cleaner.h"

#include <cairn/base/error.h>

#include "corpus/clean/fix_text.h"
#include "corpus/clean/min_hash.h"
#include "corpus/clean/standard_punctuation.h"
#include "corpus/internal/language.h"

#include <fmt/core.h>

#include <utility>

namespace cairn::corpus {
namespace {

CleanReason reason_of(UrlVerdict verdict) {
  switch (verdict) {
    case UrlVerdict::blocked_domain:
      return CleanReason::blocked_domain;
    case UrlVerdict::blocked_extension:
      return CleanReason::blocked_extension;
    case UrlVerdict::too_short:
      return CleanReason::short_url;
    case UrlVerdict::malformed:
    case UrlVerdict::fine:
      break;
  }
  return CleanReason::malformed_url;
}

} // namespace

DocumentCleaner::DocumentCleaner(const CleanOptions& options)
    : options_(options),
      urls_(options.more_blocked_domains),
      tokens_(options.tokenizer) {}

std::vector<CleanedDocument> DocumentCleaner::operator()(
    const data::LineBlock& block) const {
  std::vector<CleanedDocument> documents;
  DocumentLine parser(options_.text_key, options_.url_key);
  std::string_view rest = block.text();
  for (std::uint64_t number = block.first_line; !rest.empty(); ++number) {
    const std::string_view line = data::take_line(rest);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      continue;
    }
    try {
      documents.push_back(clean(parser, line));
    } catch (const DataError& error) {
      Problem problem = error.problem();
      problem.where = fmt::format("{}:{}", block.file, number);
      if (!options_.skip_broken_lines) {
        problem.remedy = "mend the line, or leave such lines out with "
                         "--on-error skip";
        throw DataError(std::move(problem));
      }
      documents.push_back(
          {.reason = CleanReason::broken_line,
           .bytes = line.size(),
           .problem = problem.where + ": " + problem.what});
    }
  }
  return documents;
}

CleanedDocument DocumentCleaner::clean(
    DocumentLine& parser,
    std::string_view line) const {
  parser.parse(line);
  CleanedDocument document;
  document.bytes = parser.text().size();
  if (const auto url = parser.url(); url && options_.filter_urls) {
    const UrlVerdict verdict = urls_.judge(*url);
    if (verdict != UrlVerdict::fine) {
      document.reason = reason_of(verdict);
      return document;
    }
    document.url = digest_of(*url);
  }
  const std::string text = cleaned_text(parser.text());
  document.fixed = text != parser.text();
  document.bytes = text.size();
  if (!options_.language.empty() && language_of(text) != options_.language) {
    document.reason = CleanReason::other_language;
  } else if (!tokens_.has_at_least(options_.min_tokens, text)) {
    document.reason = CleanReason::too_short;
  } else {
    document.text = digest_of(text);
    if (options_.deduplication == Deduplication::near) {
      document.hashes = band_hashes(
          pieces_of(text),
          options_.near.values,
          options_.near.bands);
    }
    document.line = parser.with_text(text);
  }
  return document;
}

std::string DocumentCleaner::cleaned_text(std::string_view text) const {
  std::string cleaned = options_.fix ? fix_text(text) : std::string(text);
  return options_.standardize_punctuation ? standard_punctuation(cleaned)
                                          : cleaned;
}

} // namespace cairn::corpus
