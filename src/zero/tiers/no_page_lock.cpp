#include "zero/tiers/page_lock.h"

// Builds without CUDA lock nothing, because nothing copies beside the host.

namespace cairn::zero {

void page_lock(std::span<std::byte>) {}

void page_unlock(std::span<std::byte>) noexcept {}

} // namespace cairn::zero
