#pragma once

#include <string>

namespace cairn::monitor {

struct NamedValue {
  std::string name;
  double value = 0;

  bool operator==(const NamedValue&) const = default;
};

} // namespace cairn::monitor
