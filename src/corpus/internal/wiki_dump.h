#pragma once

#include <cairn/base/log.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

namespace cairn::corpus {

struct WikiDumpOptions {
  std::filesystem::path input; ///< "-" is standard input
  /// A file, "-" for standard output, or a folder. A folder gets AA/wiki_00 and
  /// so on, as WikiExtractor names them.
  std::filesystem::path output;
  std::uint64_t bytes_per_file = 1 << 20; ///< if the output is a folder
  std::vector<int> namespaces{0};         ///< 0 is the namespace of articles
  bool lists = false;
  bool html_safe = false;
  bool standardize_punctuation = false;
  /// Largest page, in bytes of the dump; larger ones are left out. MediaWiki
  /// itself allows texts of 2 MiB, which escaping can turn into 12 MiB.
  std::size_t largest_page = 32 << 20;
  std::size_t workers = 1;
  /// Called with the number of input bytes, as stored on disk, that have been
  /// read.
  std::function<void(std::uint64_t)> on_progress{};
};

struct WikiDumpReport {
  std::uint64_t pages = 0;
  std::uint64_t articles = 0;         ///< written
  std::uint64_t redirects = 0;        ///< left out, like the next four
  std::uint64_t other_namespaces = 0; ///< talk, users, files, …
  std::uint64_t other_content = 0;    ///< scripts, style sheets, data
  std::uint64_t without_text = 0;
  std::uint64_t too_large = 0;
  std::uint64_t markup_bytes = 0; ///< of the articles
  std::uint64_t text_bytes = 0;
};

/// Turns a MediaWiki dump, compressed or not, into one line per article, {"id",
/// "revid", "url", "title", "text"}. The lines are in the order of the dump and
/// the same for any number of workers. Throws DataError, and writes no file, if
/// the input is no dump or ends within a page.
WikiDumpReport extract_wiki_dump(
    const WikiDumpOptions& options,
    const Logger& log);

} // namespace cairn::corpus
