#include "zero/page_lock.h"

// Without CUDA: nothing copies beside the host.

namespace cairn::zero {

void page_lock(std::span<std::byte>) {}

void page_unlock(std::span<std::byte>) noexcept {}

} // namespace cairn::zero
