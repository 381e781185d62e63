#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::distributed {

/// Totals of the calls of one kind on one group so far.
struct Traffic {
  std::string group;
  std::string operation; ///< "all_gather"
  std::int64_t calls = 0;
  std::int64_t bytes = 0; ///< sent by this rank
  bool operator==(const Traffic&) const = default;
};

/// Bytes that one rank has to send in a call on tensors of `bytes`, by the
/// algorithm that sends least. The number does not depend on the backend's
/// algorithm, so runs can be compared. A broadcast counts the same for every
/// rank.
std::int64_t bytes_sent(
    std::string_view operation,
    std::int64_t bytes,
    int ranks);

} // namespace cairn::distributed
