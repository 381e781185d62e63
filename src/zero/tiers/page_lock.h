#pragma once

#include <cstddef>
#include <span>

namespace cairn::zero {

/// Keeps memory in place, so that a GPU can copy from and to it while the host
/// goes on. Does nothing where no GPU is in use. Throws when the system
/// refuses.
void page_lock(std::span<std::byte> memory);
void page_unlock(std::span<std::byte> memory) noexcept;

} // namespace cairn::zero
