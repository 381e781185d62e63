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

/// Why a document was left out, in the order in which it is asked.
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

/// "blacklisted domain", …
std::string_view name_of(CleanReason reason);

enum class Deduplication { none, exact, near };

/// What near duplicates are; the defaults are the recipe's.
struct NearDuplicateOptions {
  std::size_t values = 100; ///< MinHash values, a multiple of `bands`
  std::size_t bands = 10;
  enum class Measure { union_, min, max } measure = Measure::union_;
  /// Documents with at least this much in common are one.
  double threshold = 0.7;
  /// Of the documents that agree in a band, the first is compared with the
  /// others; then the first of those unlike it with the rest, and so on for
  /// this many rounds. -1: until all are done, which may take long.
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
  /// Counts tokens; without it runs of letters, of digits and of signs count.
  std::shared_ptr<const text::Tokenizer> tokenizer{};
  Deduplication deduplication = Deduplication::near;
  NearDuplicateOptions near{};
  bool skip_broken_lines = false; ///< else they are a DataError
  std::size_t workers = 1;
  /// Told of bytes of the inputs, as they lie on disk, when they have been
  /// read.
  std::function<void(std::uint64_t)> on_progress{};
};

struct CleanCount {
  std::uint64_t documents = 0;
  std::uint64_t bytes = 0; ///< of text; of the line where it is broken
};

struct CleanReport {
  CleanCount read;
  CleanCount kept;
  std::array<CleanCount, clean_reasons> dropped{};
  std::uint64_t fixed = 0;                 ///< documents whose text was changed
  std::uint64_t compared = 0;              ///< pairs of texts
  std::vector<std::string> broken_lines{}; ///< the first few: where and what

  CleanCount& of(CleanReason reason) {
    return dropped[static_cast<std::size_t>(reason)];
  }
};

/// The OpenWebText recipe in one go: drops what comes from unwanted addresses,
/// repairs text, drops other languages and short documents, and of equal and
/// nearly equal documents keeps the first. The order stays, other fields stay,
/// and the result is the same for any number of workers.
///
/// Texts are not kept in memory but in a temporary file beside the output; in
/// memory are less than 200 bytes per document.
CleanReport clean_corpus(const CleanOptions& options);

} // namespace cairn::corpus
