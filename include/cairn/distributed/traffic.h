#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::distributed {

/// What the calls of one kind on one group have moved so far.
struct Traffic {
  std::string group;
  std::string operation; ///< "all_gather"
  std::int64_t calls = 0;
  std::int64_t bytes = 0; ///< that this rank sent
  bool operator==(const Traffic&) const = default;
};

/// What one rank sends in a call on tensors of `bytes`, if no algorithm sends
/// less: the same number whatever the backend does, so that runs compare. A
/// broadcast counts for every rank alike.
std::int64_t bytes_sent(
    std::string_view operation,
    std::int64_t bytes,
    int ranks);

} // namespace cairn::distributed
