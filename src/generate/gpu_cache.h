#pragma once

#include "generate/device_stream.h"
#include "generate/text_pages.h"
#include "kernels/internal/cuda/text_rows.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::generate {

/// The sizes of a cache of keys and values on a GPU.
struct GpuCacheShape {
  std::int64_t layers = 0;
  std::int64_t heads = 0; ///< of keys and values
  std::int64_t head_size = 0;
  std::int64_t page_tokens = 0;
  std::int64_t most_pages = 0;
  std::int64_t most_texts = 0;
  std::int64_t longest = 0; ///< tokens of a text

  /// Elements that a token's head takes: kernels read eight at a time.
  std::int64_t row() const { return (head_size + 7) / 8 * 8; }
  std::int64_t head_elements() const { return page_tokens * row(); }
  std::int64_t page_elements() const {
    return layers * 2 * heads * head_elements();
  }
  std::int64_t pages_of(std::int64_t tokens) const {
    return (tokens + page_tokens - 1) / page_tokens;
  }
};

/// The keys and values of every text in pages on a GPU. A page has those of all
/// layers. The page table of all texts lies on the GPU too, with rows of one
/// width, so that recorded work finds it.
class GpuCache {
 public:
  GpuCache(
      const GpuCacheShape& shape,
      at::ScalarType type,
      at::Device device,
      DeviceStream& stream);

  const GpuCacheShape& shape() const { return shape_; }

  /// See Decoder. Copies of pages are queued on the stream.
  bool reserve(std::size_t place, std::int64_t tokens);
  void release(std::size_t place) { pages_.release(place); }
  bool copy(std::size_t from, std::size_t to, std::int64_t tokens);

  /// Queues what brings the table on the GPU up to date, before a step. Only
  /// within the stream's run().
  void send_table();

  /// A place without a text, for rows that nobody reads.
  std::int32_t spare_place() const {
    return static_cast<std::int32_t>(shape_.most_texts);
  }
  /// The pages as kernels see them.
  kernels::cuda::KeptPages of_layer(std::int64_t layer) const;

 private:
  /// Writes down the text's pages from number `first` on.
  void note_pages(std::size_t place, std::size_t first);

  GpuCacheShape shape_;
  DeviceStream& stream_;
  TextPages pages_;
  at::Tensor memory_;     ///< [pages + 1, elements]; the last one is spare
  at::Tensor table_;      ///< [texts + 1, width], 32 bits
  at::Tensor host_table_; ///< the same in page-locked memory
  /// The entries of the table that the GPU does not have yet, row after row,
  /// and some between them.
  std::int64_t changed_begin_ = 0;
  std::int64_t changed_end_ = 0;
};

} // namespace cairn::generate
