#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::io::detail {

struct Piece {
  std::size_t begin; ///< from the start of the transfer
  std::size_t size;
  bool operator==(const Piece&) const = default;
};

/// Cuts a transfer into requests of at most `block` bytes, a multiple of
/// `direct_alignment`. As much as memory and file allow is in pieces that are
/// aligned in both; the ends that are not aligned get their own pieces.
std::vector<Piece> cut_transfer(
    std::uintptr_t address,
    std::uint64_t offset,
    std::size_t size,
    std::size_t block);

} // namespace cairn::io::detail
