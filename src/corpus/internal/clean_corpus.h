#pragma once

#include <cairn/text/tokenizer.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::corpus {

/// Why a document was dropped, in the order of the checks.
enum class CleanReason {
  broken_line,
  blocked_domain,
  blocked_extension,
  short_url,
  malformed_url,
  duplicate_url,
  other_language,
  too_short,
  exact_duplicate,
  near_duplicate,
};
inline constexpr std::size_t clean_reasons = 10;

/// A name for people, such as "blacklisted domain".
std::string_view name_of(CleanReason reason);

enum class Deduplication { none, exact, near };

/// Criteria for near duplicates; the defaults are those of the OpenWebText
/// recipe.
struct NearDuplicateOptions {
  std::size_t values = 100; ///< MinHash values, a multiple of `bands`
  std::size_t bands = 10;
  enum class Measure { union_, min, max } measure = Measure::union_;
  /// Similarity from which on two documents count as one.
  double threshold = 0.7;
  /// Rounds of comparison among the documents that agree in a band. In a round
  /// the first document is compared with the others; the documents unlike it go
  /// to the next round. -1 compares until none is left, which may take long.
  int rounds = 1;
};

struct CleanOptions {
  std::vector<std::filesystem::path> inputs; ///< JSON lines; "-" is stdin
  std::filesystem::path output = "-";
  std::string text_key = "text";
  std::string url_key = "url"; ///< documents without it pass the URL filter
  bool filter_urls = true;
  std::vector<std::string> more_blocked_domains{};
  bool fix = true;
  bool standardize_punctuation = false; ///< after fixing
  std::string language = "en";          ///< empty: any
  std::size_t min_tokens = 128;
  /// Counts tokens. If null, runs of letters, of digits and of other signs are
  /// counted.
  std::shared_ptr<const text::Tokenizer> tokenizer{};
  Deduplication deduplication = Deduplication::near;
  NearDuplicateOptions near{};
  bool skip_broken_lines = false; ///< if false, they are a DataError
  std::size_t workers = 1;
  /// Called with the number of input bytes, as stored on disk, that have been
  /// read.
  std::function<void(std::uint64_t)> on_progress{};
};

struct CleanCount {
  std::uint64_t documents = 0;
  std::uint64_t bytes = 0; ///< of the text; for a broken line, of the line
};

struct CleanReport {
  CleanCount read;
  CleanCount kept;
  std::array<CleanCount, clean_reasons> dropped{};
  std::uint64_t fixed = 0;                 ///< documents whose text was changed
  std::uint64_t compared = 0;              ///< pairs of texts compared
  std::vector<std::string> broken_lines{}; ///< the first few: where and what

  CleanCount& of(CleanReason reason) {
    return dropped[static_cast<std::size_t>(reason)];
  }
};

/// Runs the whole OpenWebText recipe: drops documents from unwanted addresses,
/// repairs text, drops other languages and short documents, and keeps only the
/// first of equal and nearly equal documents. The order and all other fields
/// stay, and the result is the same for any number of workers.
///
/// Texts are kept in a temporary file beside the output; memory holds less than
/// 200 bytes per document.
CleanReport clean_corpus(const CleanOptions& options);

} // namespace cairn::corpus
