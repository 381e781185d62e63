#pragma once

#include "generate/page_pool.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::generate {

/// The sizes of a cache of keys and values.
struct CacheShape {
  std::int64_t layers = 0;
  std::int64_t heads = 0; ///< of keys and values
  std::int64_t head_size = 0;
  std::int64_t page_tokens = 0;
  std::int64_t most_pages = 0;

  std::int64_t block() const { return head_size * page_tokens; }
  std::int64_t page_floats() const { return layers * 2 * heads * block(); }
  /// Where a page has the keys of a head, [head_size][page_tokens].
  std::int64_t keys_at(std::int64_t layer, std::int64_t head) const {
    return (layer * 2 * heads + head) * block();
  }
  /// Where a page has the values of a head, [page_tokens][head_size].
  std::int64_t values_at(std::int64_t layer, std::int64_t head) const {
    return ((layer * 2 + 1) * heads + head) * block();
  }
};

/// The pages with the keys and values of every text. A page has those of all
/// layers.
class KeptTexts {
 public:
  KeptTexts(const CacheShape& shape, std::int64_t most_texts);

  const CacheShape& shape() const { return shape_; }
  std::int64_t longest() const {
    return shape_.most_pages * shape_.page_tokens;
  }
  /// The pages of a text, in the order of its tokens.
  std::span<float* const> pages(std::size_t place) const {
    return texts_[place].memory;
  }

  /// See Decoder.
  bool reserve(std::size_t place, std::int64_t tokens);
  void release(std::size_t place);
  /// The new text shares the pages that are full, which are not written again.
  bool copy(std::size_t from, std::size_t to, std::int64_t tokens);

 private:
  struct Text {
    std::vector<PagePool::Page> pages{};
    std::vector<float*> memory{}; ///< of each page
  };

  void append(Text& text, PagePool::Page page);

  CacheShape shape_;
  PagePool pool_;
  std::vector<Text> texts_;
};

} // namespace cairn::generate
