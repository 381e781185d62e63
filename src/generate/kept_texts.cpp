#include "generate/kept_texts.h"

#include <algorithm>

namespace cairn::generate {

KeptTexts::KeptTexts(const CacheShape& shape, std::int64_t most_texts)
    : shape_(shape),
      pages_(shape.page_tokens, shape.most_pages, most_texts),
      addresses_(static_cast<std::size_t>(most_texts)) {}

void KeptTexts::find_memory(std::size_t place) {
  std::vector<float*>& addresses = addresses_[place];
  const auto pages = pages_.of(place);
  for (const TextPages::Page page : pages.subspan(addresses.size())) {
    while (memory_.size() <= page) {
      // Zeros: attention also multiplies the places of a page that no token has
      // yet, and drops the products.
      memory_.push_back(std::make_unique<float[]>(
          static_cast<std::size_t>(shape_.page_floats())));
    }
    addresses.push_back(memory_[page].get());
  }
}

bool KeptTexts::reserve(std::size_t place, std::int64_t tokens) {
  if (!pages_.reserve(place, tokens)) {
    return false;
  }
  find_memory(place);
  return true;
}

void KeptTexts::release(std::size_t place) {
  pages_.release(place);
  addresses_[place].clear();
}

bool KeptTexts::copy(std::size_t from, std::size_t to, std::int64_t tokens) {
  const auto copied = pages_.copy(from, to, tokens);
  if (!copied) {
    return false;
  }
  find_memory(to);
  if (copied->from) {
    std::copy_n(
        memory_[*copied->from].get(),
        shape_.page_floats(),
        addresses_[to].back());
  }
  return true;
}

} // namespace cairn::generate
