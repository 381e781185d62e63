#pragma once

#include <cairn/distributed/process_group.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::nn {

/// The shape of a parameter, and the box of it that this rank holds.
struct SlicedShape {
  std::vector<std::int64_t> whole;
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> local;

  static SlicedShape all_of(std::vector<std::int64_t> whole);
  /// Gives each rank an equal share of `dim`. Throws ConfigError, naming
  /// `what`, where `dim` does not divide.
  static SlicedShape cut(
      std::vector<std::int64_t> whole,
      std::size_t dim,
      const distributed::ProcessGroup& group,
      const std::string& what);
  /// Gives each rank a share of the first dimension, padded to `padded` rows.
  /// The shares of the last ranks may be padding, in part or wholly.
  static SlicedShape cut_padded(
      std::vector<std::int64_t> whole,
      std::int64_t padded,
      const distributed::ProcessGroup& group);

  bool is_whole() const { return local == whole; }
};

} // namespace cairn::nn
