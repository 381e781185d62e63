#pragma once

#include "generate/token_row.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::generate {

/// A change of what a decoder remembers, as Decoder has it.
struct CacheChange {
  enum class Kind { reserve, release, copy };
  Kind kind = Kind::reserve;
  std::size_t place = 0;
  std::size_t from = 0;    ///< copy
  std::int64_t tokens = 0; ///< reserve, copy

  bool operator==(const CacheChange&) const = default;
};

/// What the first rank tells the other ranks of a model to do next. Plain data.
struct RankOrder {
  enum class Kind {
    nothing, ///< the first rank is still there
    make,    ///< a decoder
    drop,    ///< a decoder
    step,    ///< changes of a decoder's memory, and tokens to compute
    end      ///< there is nothing more to do
  };
  Kind kind = Kind::nothing;
  std::int64_t decoder = 0; ///< number of the decoder, from 0
  // make
  std::int64_t most_texts = 0;
  std::int64_t page_tokens = 0;
  std::int64_t most_pages = 0;
  // step
  std::vector<CacheChange> changes{};
  std::vector<TokenRow> tokens{};

  /// The order as numbers, which travel between ranks.
  std::vector<std::int64_t> numbers() const;
  /// Throws InternalError for numbers that are no order.
  static RankOrder from(std::span<const std::int64_t> numbers);

  bool operator==(const RankOrder&) const = default;
};

} // namespace cairn::generate
