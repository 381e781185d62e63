#include "generate/text_pages.h"

namespace cairn::generate {

TextPages::TextPages(
    std::int64_t page_tokens,
    std::int64_t most_pages,
    std::int64_t most_texts)
    : page_tokens_(page_tokens),
      pool_(most_pages),
      texts_(static_cast<std::size_t>(most_texts)) {}

bool TextPages::reserve(std::size_t place, std::int64_t tokens) {
  std::vector<Page>& text = texts_[place];
  const std::int64_t pages = (tokens + page_tokens_ - 1) / page_tokens_;
  if (pages - std::ssize(text) > pool_.free_pages()) {
    return false;
  }
  while (std::ssize(text) < pages) {
    text.push_back(pool_.take());
  }
  return true;
}

void TextPages::release(std::size_t place) {
  for (const Page page : texts_[place]) {
    pool_.give_back(page);
  }
  texts_[place].clear();
}

std::optional<TextPages::Copied> TextPages::copy(
    std::size_t from,
    std::size_t to,
    std::int64_t tokens) {
  const auto full = static_cast<std::size_t>(tokens / page_tokens_);
  const bool partial = tokens % page_tokens_ != 0;
  if (partial && pool_.free_pages() == 0) {
    return std::nullopt;
  }
  const std::vector<Page>& source = texts_[from];
  std::vector<Page>& target = texts_[to];
  for (std::size_t i = 0; i < full; ++i) {
    pool_.share(source[i]);
    target.push_back(source[i]);
  }
  if (!partial) {
    return Copied{};
  }
  target.push_back(pool_.take());
  return Copied{source[full]};
}

} // namespace cairn::generate
