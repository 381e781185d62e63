#include "generate/kept_texts.h"

#include <algorithm>

namespace cairn::generate {

KeptTexts::KeptTexts(const CacheShape& shape, std::int64_t most_texts)
    : shape_(shape),
      pool_(shape.page_floats(), shape.most_pages),
      texts_(static_cast<std::size_t>(most_texts)) {}

void KeptTexts::append(Text& text, PagePool::Page page) {
  text.pages.push_back(page);
  text.memory.push_back(pool_.memory(page));
}

bool KeptTexts::reserve(std::size_t place, std::int64_t tokens) {
  Text& text = texts_[place];
  const std::int64_t pages =
      (tokens + shape_.page_tokens - 1) / shape_.page_tokens;
  if (pages - std::ssize(text.pages) > pool_.free_pages()) {
    return false;
  }
  while (std::ssize(text.pages) < pages) {
    append(text, pool_.take());
  }
  return true;
}

void KeptTexts::release(std::size_t place) {
  for (const PagePool::Page page : texts_[place].pages) {
    pool_.give_back(page);
  }
  texts_[place] = {};
}

bool KeptTexts::copy(std::size_t from, std::size_t to, std::int64_t tokens) {
  const auto full = static_cast<std::size_t>(tokens / shape_.page_tokens);
  const bool partial = tokens % shape_.page_tokens != 0;
  if (partial && pool_.free_pages() == 0) {
    return false;
  }
  const Text& source = texts_[from];
  Text& target = texts_[to];
  for (std::size_t i = 0; i < full; ++i) {
    pool_.share(source.pages[i]);
    append(target, source.pages[i]);
  }
  if (partial) {
    append(target, pool_.take());
    std::copy_n(source.memory[full], shape_.page_floats(), target.memory[full]);
  }
  return true;
}

} // namespace cairn::generate
