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
  /// A file, "-" for standard output, or a folder, which gets AA/wiki_00 and so
  /// on as WikiExtractor names them.
  std::filesystem::path output;
  std::uint64_t bytes_per_file = 1 << 20; ///< in a folder
  std::vector<int> namespaces{0};         ///< 0 is that of articles
  bool lists = false;
  bool html_safe = false;
  bool standardize_punctuation = false;
  /// In bytes of the dump; larger pages are left out. MediaWiki itself takes
  /// texts of 2 MiB, which escaping can make 12.
  std::size_t largest_page = 32 << 20;
  std::size_t workers = 1;
  /// Told of bytes of the input, as it lies on disk, when they have been read.
  std::function<void(std::uint64_t)> on_progress{};
};

struct WikiDumpReport {
  std::uint64_t pages = 0;
  std::uint64_t articles = 0;         ///< written
  std::uint64_t redirects = 0;        ///< left out, as are the next four
  std::uint64_t other_namespaces = 0; ///< talk, users, files, …
  std::uint64_t other_content = 0;    ///< scripts, style sheets, data
  std::uint64_t without_text = 0;
  std::uint64_t too_large = 0;
  std::uint64_t markup_bytes = 0; ///< of the articles
  std::uint64_t text_bytes = 0;
};

/// Turns a MediaWiki dump, compressed or not, into one line per article,
/// {"id", "revid", "url", "title", "text"}, in the order of the dump and the
/// same for any number of workers. A dump that is no such thing or ends within
/// a page is a DataError, and then no file is written.
WikiDumpReport extract_wiki_dump(
    const WikiDumpOptions& options,
    const Logger& log);

} // namespace cairn::corpus
