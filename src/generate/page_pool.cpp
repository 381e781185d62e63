#include "generate/page_pool.h"

#include <cairn/base/error.h>

namespace cairn::generate {

PagePool::PagePool(std::int64_t page_floats, std::int64_t most_pages)
    : page_floats_(page_floats), most_pages_(most_pages) {}

PagePool::Page PagePool::take() {
  if (free_pages() == 0) {
    throw InternalError({.what = "a page from a pool without a free one"});
  }
  if (free_.empty()) {
    // Zeros: attention also multiplies the places of a page that no token has
    // yet, and drops the products.
    pages_.push_back(
        {std::make_unique<float[]>(static_cast<std::size_t>(page_floats_))});
    free_.push_back(pages_.size() - 1);
  }
  const Page page = free_.back();
  free_.pop_back();
  pages_[page].users = 1;
  ++used_;
  return page;
}

void PagePool::give_back(Page page) {
  if (--pages_[page].users == 0) {
    free_.push_back(page);
    --used_;
  }
}

} // namespace cairn::generate
