#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace cairn::distributed {

/// Pieces of memory, seen as one sequence of bytes: moves a list of tensors
/// without joining them first.
class Spans {
 public:
  void add(void* data, std::size_t bytes) {
    pieces_.push_back({static_cast<std::byte*>(data), size_, bytes});
    size_ += bytes;
  }

  std::size_t size() const { return size_; }
  /// True when both are the same memory.
  bool operator==(const Spans&) const = default;

  /// Calls visit(address, bytes, offset) for each piece in [begin, end), a
  /// range that is cut to the size. Offsets count from `begin`.
  template <typename Visit>
  void each(std::size_t begin, std::size_t end, Visit visit) const {
    end = std::min(end, size_);
    auto piece = std::upper_bound(
        pieces_.begin(),
        pieces_.end(),
        begin,
        [](std::size_t at, const Piece& it) {
          return at < it.begin + it.size;
        });
    for (std::size_t at = begin; at < end; ++piece) {
      const std::size_t inside = at - piece->begin;
      const std::size_t bytes = std::min(piece->size - inside, end - at);
      visit(piece->data + inside, bytes, at - begin);
      at += bytes;
    }
  }

  Spans slice(std::size_t begin, std::size_t end) const {
    Spans result;
    each(begin, end, [&](std::byte* data, std::size_t bytes, std::size_t) {
      result.add(data, bytes);
    });
    return result;
  }

  void copy_to(std::byte* to, std::size_t begin, std::size_t end) const {
    each(begin, end, [&](std::byte* data, std::size_t bytes, std::size_t at) {
      std::memcpy(to + at, data, bytes);
    });
  }

  void copy_from(const std::byte* from, std::size_t begin, std::size_t end)
      const {
    each(begin, end, [&](std::byte* data, std::size_t bytes, std::size_t at) {
      std::memcpy(data, from + at, bytes);
    });
  }

 private:
  struct Piece {
    std::byte* data;
    std::size_t begin;
    std::size_t size;
    bool operator==(const Piece&) const = default;
  };

  std::vector<Piece> pieces_;
  std::size_t size_ = 0;
};

} // namespace cairn::distributed
