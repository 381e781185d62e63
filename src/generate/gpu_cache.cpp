#include "generate/gpu_cache.h"

#include "kernels/internal/element_of.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>

namespace cairn::generate {

GpuCache::GpuCache(
    const GpuCacheShape& shape,
    at::ScalarType type,
    at::Device device,
    DeviceStream& stream)
    : shape_(shape),
      stream_(stream),
      pages_(shape.page_tokens, shape.most_pages, shape.most_texts) {
  const auto on_device = at::TensorOptions(device);
  memory_ = at::empty(
      {shape.most_pages + 1, shape.page_elements()},
      on_device.dtype(type));
  const std::int64_t width = shape.pages_of(shape.longest);
  // Entries without a page name the spare one.
  host_table_ = at::full(
      {shape.most_texts + 1, width},
      shape.most_pages,
      at::TensorOptions(at::kInt));
  if (device.is_cuda()) {
    host_table_ = host_table_.pin_memory();
  }
  table_ = at::empty({shape.most_texts + 1, width}, on_device.dtype(at::kInt));
  table_.copy_(host_table_);
}

void GpuCache::note_pages(std::size_t place, std::size_t first) {
  const auto pages = pages_.of(place).subspan(first);
  if (pages.empty()) {
    return;
  }
  const std::int64_t begin =
      static_cast<std::int64_t>(place) * host_table_.size(1) +
      static_cast<std::int64_t>(first);
  auto* to = host_table_.mutable_data_ptr<std::int32_t>() + begin;
  for (const TextPages::Page page : pages) {
    *to++ = static_cast<std::int32_t>(page);
  }
  const std::int64_t end = begin + std::ssize(pages);
  const bool none = changed_begin_ == changed_end_;
  changed_begin_ = none ? begin : std::min(changed_begin_, begin);
  changed_end_ = none ? end : std::max(changed_end_, end);
}

void GpuCache::send_table() {
  const std::int64_t count = changed_end_ - changed_begin_;
  if (count > 0) {
    const auto changed = [&](const at::Tensor& table) {
      return table.view({-1}).narrow(0, changed_begin_, count);
    };
    changed(table_).copy_(changed(host_table_), /*non_blocking=*/true);
    changed_begin_ = changed_end_ = 0;
  }
}

bool GpuCache::reserve(std::size_t place, std::int64_t tokens) {
  const std::size_t before = pages_.of(place).size();
  if (!pages_.reserve(place, tokens)) {
    return false;
  }
  note_pages(place, before);
  return true;
}

bool GpuCache::copy(std::size_t from, std::size_t to, std::int64_t tokens) {
  const auto copied = pages_.copy(from, to, tokens);
  if (!copied) {
    return false;
  }
  note_pages(to, 0);
  if (copied->from) {
    stream_.run([&] {
      memory_[static_cast<std::int64_t>(pages_.of(to).back())].copy_(
          memory_[static_cast<std::int64_t>(*copied->from)],
          /*non_blocking=*/true);
    });
  }
  return true;
}

kernels::cuda::KeptPages GpuCache::of_layer(std::int64_t layer) const {
  const std::int64_t head = shape_.head_elements();
  return {
      .data = memory_.mutable_data_ptr(),
      .element = *kernels::element_of(memory_.scalar_type()),
      .page_step = shape_.page_elements(),
      .keys_at = layer * 2 * shape_.heads * head,
      .values_at = (layer * 2 + 1) * shape_.heads * head,
      .head_step = head,
      .page_tokens = static_cast<int>(shape_.page_tokens),
      .row = static_cast<int>(shape_.row()),
      .table = table_.const_data_ptr<std::int32_t>(),
      .width = static_cast<int>(table_.size(1))};
}

} // namespace cairn::generate
