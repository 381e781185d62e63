#pragma once

#include "corpus/clean/document_line.h"
#include "corpus/clean/text_digest.h"
#include "corpus/clean/token_counter.h"
#include "corpus/clean/url_filter.h"
#include "corpus/internal/clean_corpus.h"
#include "data/internal/line_reader.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::corpus {

/// The findings about one document that need no knowledge of the others.
struct CleanedDocument {
  std::optional<CleanReason> reason; ///< set if it must be dropped
  bool fixed = false;
  std::size_t bytes = 0;
  std::optional<TextDigest> url;
  TextDigest text{};
  std::vector<std::uint64_t> hashes;
  std::string line;    ///< the line to write
  std::string problem; ///< of a broken line
};

/// Cleans the documents of a block, one by one; threads may share a cleaner.
class DocumentCleaner {
 public:
  explicit DocumentCleaner(const CleanOptions& options);

  std::vector<CleanedDocument> operator()(const data::LineBlock& block) const;

 private:
  CleanedDocument clean(DocumentLine& parser, std::string_view line) const;
  std::string cleaned_text(std::string_view text) const;

  const CleanOptions& options_;
  UrlFilter urls_;
  TokenCounter tokens_;
};

} // namespace cairn::corpus
