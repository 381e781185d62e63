#include "corpus/wiki/wiki_page_reader.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace cairn::corpus {
namespace {

constexpr std::string_view page_end = "</page>";

} // namespace

WikiPageReader::WikiPageReader(
    const std::filesystem::path& path,
    std::size_t largest_page)
    : path_(path.string()),
      largest_page_(largest_page),
      stream_(data::open_input(path)) {
  std::size_t begin = std::string::npos;
  while (begin == std::string::npos && buffer_.size() < 4 * stretch &&
         read_more()) {
    begin = buffer_.find("<page>");
  }
  if (buffer_.find("<mediawiki") == std::string::npos) {
    throw DataError(
        {.what = "is no MediaWiki dump: there is no <mediawiki> in it",
         .where = path_,
         .remedy = "give the file pages-articles.xml.bz2 of a wiki"});
  }
  if (begin != std::string::npos) {
    head_ = buffer_.substr(0, begin);
    buffer_.erase(0, begin);
  }
}

bool WikiPageReader::read_more() {
  if (ended_) {
    return false;
  }
  const std::size_t before = buffer_.size();
  buffer_.resize(before + stretch);
  std::size_t got = 0;
  while (got < stretch) {
    const std::size_t count =
        stream_->read(std::span(buffer_).subspan(before + got, stretch - got));
    if (count == 0) {
      ended_ = true;
      break;
    }
    got += count;
  }
  buffer_.resize(before + got);
  return got > 0;
}

/// Removes all but the last revision. Dumps with the whole history have pages
/// of many gigabytes, of which only the last revision is used.
void WikiPageReader::drop_old_revisions() {
  constexpr std::string_view revision = "<revision>";
  const std::size_t first = buffer_.find(revision);
  if (first != std::string::npos) {
    buffer_.erase(first, buffer_.rfind(revision) - first);
  }
}

void WikiPageReader::pass_over_page() {
  ++too_large_;
  std::size_t end = buffer_.find(page_end);
  while (end == std::string::npos) {
    // The mark may be split between this stretch and the next.
    buffer_.erase(
        0,
        buffer_.size() - std::min(buffer_.size(), page_end.size()));
    if (!read_more()) {
      refuse_torn_page();
    }
    end = buffer_.find(page_end);
  }
  buffer_.erase(0, end + page_end.size());
}

void WikiPageReader::refuse_torn_page() const {
  throw DataError(
      {.what = "ends within a page",
       .where = path_,
       .remedy = "the download is not complete: fetch it again"});
}

bool WikiPageReader::next(std::string& pages) {
  std::size_t searched = 0;
  while (true) {
    const std::size_t end =
        std::string_view(buffer_).substr(searched).rfind(page_end);
    if (end != std::string_view::npos) {
      const std::size_t size = searched + end + page_end.size();
      pages = std::move(buffer_);
      buffer_ = pages.substr(size);
      pages.resize(size);
      return true;
    }
    if (buffer_.size() > largest_page_) {
      drop_old_revisions();
      if (buffer_.size() > largest_page_) {
        pass_over_page();
        searched = 0;
        continue;
      }
    }
    searched = buffer_.size() - std::min(buffer_.size(), page_end.size());
    if (!read_more()) {
      break;
    }
  }
  if (buffer_.find("<page>") != std::string::npos) {
    refuse_torn_page();
  }
  complete_ = buffer_.find("</mediawiki>") != std::string::npos;
  buffer_.clear();
  return false;
}

} // namespace cairn::corpus
