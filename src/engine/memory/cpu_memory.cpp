#include "engine/memory/cpu_memory.h"

#include "monitor/internal/process_memory.h"

#include <ATen/ops/empty.h>
#include <malloc.h>

namespace cairn::inline engine {

namespace {

std::int64_t malloced() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

/// True when libtorch uses malloc; some builds bring an allocator of their own.
bool malloc_serves_tensors() {
  constexpr std::int64_t probe = 1 << 16;
  const std::int64_t before = malloced();
  const at::Tensor tensor = at::empty({probe}, at::kByte);
  return malloced() - before >= probe;
}

} // namespace

std::int64_t cpu_memory_in_use() {
  static const bool is_malloc = malloc_serves_tensors();
  return is_malloc ? malloced()
                   : static_cast<std::int64_t>(monitor::anonymous_resident());
}

} // namespace cairn::engine
