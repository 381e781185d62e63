#pragma once

#include <cairn/data/byte_stream.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace cairn::corpus {

/// Cuts a dump into stretches of whole pages, about a megabyte each.
class WikiPageReader {
 public:
  explicit WikiPageReader(const std::filesystem::path& path);

  /// What stands in front of the first page.
  const std::string& head() const { return head_; }

  /// Fills `pages`; false at the end.
  bool next(std::string& pages);

  /// Whether the dump ended as it should, with </mediawiki>.
  bool complete() const { return complete_; }

  const data::ByteStream& stream() const { return *stream_; }

 private:
  bool read_more();

  std::string path_;
  std::unique_ptr<data::ByteStream> stream_;
  std::string head_;
  std::string buffer_;
  bool ended_ = false;
  bool complete_ = false;
};

} // namespace cairn::corpus
