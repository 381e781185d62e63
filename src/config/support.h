#pragma once

#include <string>

namespace cairn::config {

/// What Cairn does about a setting it knows.
struct Support {
  enum class Kind {
    honoured,
    without_effect, ///< accepted with a warning: it cannot matter here
    refused         ///< an error when it asks for anything but its default
  };
  Kind kind = Kind::honoured;
  std::string reason; ///< of the last two
};

} // namespace cairn::config
