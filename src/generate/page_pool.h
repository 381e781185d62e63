#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace cairn::generate {

/// Pages of equal size, up to a greatest number of them. Several texts may
/// share a page. Memory is taken from the system when a page is first needed,
/// and kept.
class PagePool {
 public:
  using Page = std::size_t;

  PagePool(std::int64_t page_floats, std::int64_t most_pages);

  std::int64_t most_pages() const { return most_pages_; }
  std::int64_t free_pages() const { return most_pages_ - used_; }
  float* memory(Page page) const { return pages_[page].memory.get(); }

  /// A page of one user. There must be a free one.
  Page take();
  void share(Page page) { ++pages_[page].users; } ///< adds a user
  void give_back(Page page);                      ///< takes a user away

 private:
  struct Entry {
    std::unique_ptr<float[]> memory;
    int users = 0;
  };

  std::int64_t page_floats_;
  std::int64_t most_pages_;
  std::int64_t used_ = 0;
  std::vector<Entry> pages_;
  std::vector<Page> free_;
};

} // namespace cairn::generate
