#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::generate {

/// Numbers of pages of equal size, up to a greatest number of them. Several
/// texts may share a page. A page that was given back is taken again before a
/// new one, so numbers are below the greatest number of pages that were used at
/// a time.
class PagePool {
 public:
  using Page = std::size_t;

  explicit PagePool(std::int64_t most_pages) : most_pages_(most_pages) {}

  std::int64_t free_pages() const { return most_pages_ - used_; }

  /// A page of one user. There must be a free one.
  Page take();
  void share(Page page) { ++users_[page]; } ///< adds a user
  void give_back(Page page);                ///< takes a user away

 private:
  std::int64_t most_pages_;
  std::int64_t used_ = 0;
  std::vector<int> users_; ///< of each page
  std::vector<Page> free_;
};

} // namespace cairn::generate
