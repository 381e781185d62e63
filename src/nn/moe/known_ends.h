#pragma once

#include <cairn/nn/mixture.h>

#include <cstdint>
#include <vector>

namespace cairn::nn {

/// The ends of groups as the host knows them, or reads them now. On a GPU it
/// waits for them.
inline std::vector<std::int64_t> read_ends(const RowGroups& groups) {
  if (!groups.known_ends.empty()) {
    return groups.known_ends;
  }
  const at::Tensor ends = groups.ends.cpu();
  const auto* const begin = ends.const_data_ptr<std::int32_t>();
  return {begin, begin + ends.numel()};
}

} // namespace cairn::nn
