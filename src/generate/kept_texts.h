#pragma once

#include "generate/text_pages.h"

#include <cstddef>
#include <cstdint>
#include <memory>
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
    return addresses_[place];
  }

  /// See Decoder.
  bool reserve(std::size_t place, std::int64_t tokens);
  void release(std::size_t place);
  bool copy(std::size_t from, std::size_t to, std::int64_t tokens);

 private:
  /// Writes down where the text's new pages are.
  void find_memory(std::size_t place);

  CacheShape shape_;
  TextPages pages_;
  /// Memory of each page, which is taken from the system when the page is first
  /// needed, and kept.
  std::vector<std::unique_ptr<float[]>> memory_;
  std::vector<std::vector<float*>> addresses_; ///< of each text's pages
};

} // namespace cairn::generate
