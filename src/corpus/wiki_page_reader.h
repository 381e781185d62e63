#pragma once

#include <cairn/data/byte_stream.h>

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

  /// A page that takes more than `largest_page` bytes of XML, when of its
  /// revisions only the last is counted, is passed over.
  WikiPageReader(const std::filesystem::path& path, std::size_t largest_page);

  /// What stands in front of the first page.
  const std::string& head() const { return head_; }

  /// Fills `pages`; false at the end.
  bool next(std::string& pages);

  /// How many pages were passed over.
  std::uint64_t too_large() const { return too_large_; }

  /// Whether the dump ended as it should, with </mediawiki>.
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
