#include "generate/page_pool.h"

#include <cairn/base/error.h>

namespace cairn::generate {

PagePool::Page PagePool::take() {
  if (free_pages() == 0) {
    throw InternalError({.what = "a page from a pool without a free one"});
  }
  if (free_.empty()) {
    users_.push_back(0);
    free_.push_back(users_.size() - 1);
  }
  const Page page = free_.back();
  free_.pop_back();
  users_[page] = 1;
  ++used_;
  return page;
}

void PagePool::give_back(Page page) {
  if (--users_[page] == 0) {
    free_.push_back(page);
    --used_;
  }
}

} // namespace cairn::generate
