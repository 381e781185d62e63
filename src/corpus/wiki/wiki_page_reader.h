#pragma once

#include "data/internal/byte_stream.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace cairn::corpus {

/// Cuts a dump into stretches of whole pages, about a megabyte each.
class WikiPageReader {
 public:
  static constexpr std::size_t stretch = 1 << 20;

  /// Skips pages of more than `largest_page` bytes of XML, counting only the
  /// last revision.
  WikiPageReader(const std::filesystem::path& path, std::size_t largest_page);

  /// The dump up to the first page.
  const std::string& head() const { return head_; }

  /// Fills `pages` with the next stretch; false at the end.
  bool next(std::string& pages);

  /// The number of pages skipped.
  std::uint64_t too_large() const { return too_large_; }

  /// True when the dump ended as it should, with </mediawiki>.
  bool complete() const { return complete_; }

  const data::ByteStream& stream() const { return *stream_; }

 private:
  bool read_more();
  void drop_old_revisions();
  void pass_over_page();
  [[noreturn]] void refuse_torn_page() const;

  std::string path_;
  std::size_t largest_page_;
  std::unique_ptr<data::ByteStream> stream_;
  std::string head_;
  std::string buffer_;
  std::uint64_t too_large_ = 0;
  bool ended_ = false;
  bool complete_ = false;
};

} // namespace cairn::corpus
