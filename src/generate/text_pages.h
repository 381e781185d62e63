#pragma once

#include "generate/page_pool.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cairn::generate {

/// The numbers of the pages that each text has, in the order of its tokens.
class TextPages {
 public:
  using Page = PagePool::Page;

  TextPages(
      std::int64_t page_tokens,
      std::int64_t most_pages,
      std::int64_t most_texts);

  std::span<const Page> of(std::size_t place) const { return texts_[place]; }

  /// See Decoder.
  bool reserve(std::size_t place, std::int64_t tokens);
  void release(std::size_t place);

  /// The text's pages after copy(). Where the last one is not full, what it
  /// holds is to be copied `from` another page.
  struct Copied {
    std::optional<Page> from{};
  };
  /// See Decoder. The new text shares the pages that are full, which are not
  /// written again. Empty if there is no room.
  std::optional<Copied> copy(
      std::size_t from,
      std::size_t to,
      std::int64_t tokens);

 private:
  std::int64_t page_tokens_;
  PagePool pool_;
  std::vector<std::vector<Page>> texts_;
};

} // namespace cairn::generate
