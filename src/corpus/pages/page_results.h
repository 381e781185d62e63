#pragma once

#include "corpus/clean/text_digest.h"
#include "corpus/internal/fetch_pages.h"
#include "corpus/internal/output_file.h"
#include "corpus/output/resumable_lines.h"
#include "corpus/pages/page_text.h"

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace cairn::corpus {

/// Writes pages and failures, and remembers what is done, also by an earlier
/// run that was interrupted. Any number of threads may use it.
class PageResults {
 public:
  explicit PageResults(const PageOptions& options);

  enum class Before { fresh, repeated, earlier };
  /// Whether the address, without its "#…", was there before; remembers it.
  Before meet(std::string_view address);

  void keep(std::string_view address, const PageText& page);
  /// A failure to reach a server is not written before a server has answered:
  /// the network may be down. Throws DataError when that seems to be so.
  void fail(
      std::string_view address,
      PageFailure failure,
      std::string_view reason);
  /// Says that a server has answered, whatever it was.
  void answered();

  /// Gives the file of pages its name.
  PageReport commit();

 private:
  bool take_page(std::string_view line);
  bool take_failure(std::string_view line);
  void write_failure(PageFailure failure, std::string_view line);
  void write_held();
  [[noreturn]] void give_up() const;

  const PageOptions& options_;
  std::mutex mutex_;
  std::unordered_set<TextDigest, TextDigest::Hash> earlier_;
  std::unordered_set<TextDigest, TextDigest::Hash> met_;
  PageReport report_;
  // One of these two:
  std::optional<ResumableLines> pages_;
  std::optional<OutputFile> stream_;
  std::optional<ResumableLines> failures_;
  std::vector<std::string> held_; ///< lines of servers that were not reached
  std::set<std::string> held_servers_;
  bool answered_ = false;
};

} // namespace cairn::corpus
