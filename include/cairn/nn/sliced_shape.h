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
  /// An equal share of `dim` for each rank. Throws ConfigError, naming `what`,
  /// where it does not divide.
  static SlicedShape cut(
      std::vector<std::int64_t> whole,
      std::size_t dim,
      const distributed::ProcessGroup& group,
      const std::string& what);
  /// Shares of the first dimension once it is padded to `padded` rows: of the
  /// last ranks' some or all are padding.
  static SlicedShape cut_padded(
      std::vector<std::int64_t> whole,
      std::int64_t padded,
      const distributed::ProcessGroup& group);

  bool is_whole() const { return local == whole; }
};

} // namespace cairn::nn
