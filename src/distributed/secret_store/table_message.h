#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::distributed {

/// A question to the table of a job, or its answer.
struct TableMessage {
  enum class Kind : char {
    // questions, with their fields
    set = 's',         ///< key, value
    get = 'g',         ///< milliseconds to wait, key
    compare_set = 'c', ///< key, expected, desired
    add = 'a',         ///< key, number
    erase = 'e',       ///< key
    check = 'k',       ///< keys
    count = 'n',
    wait = 'w', ///< milliseconds, keys
    // answers
    value = 'v',   ///< one field
    timeout = 't', ///< the keys did not come in time
  };
  Kind kind = Kind::value;
  std::vector<std::string> fields;
};

/// The largest message. The rendezvous of a thousand ranks takes a hundredth.
inline constexpr std::size_t longest_message = std::size_t{64} << 20;

std::string to_bytes(const TableMessage& message);

/// Takes the first message off `bytes`; none while it is incomplete. Throws
/// CommError for bytes that are no message.
std::optional<TableMessage> take_message(std::string& bytes);

} // namespace cairn::distributed
