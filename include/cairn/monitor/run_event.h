#pragma once

#include <cairn/monitor/named_value.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// What happens to a run beside its iterations, for files that can hold it.

namespace cairn::monitor {

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

/// It starts, or goes on after `step`. A second one in a file is a restart.
struct RunStart {
  std::int64_t step = 0;
  std::int64_t iterations = 0; ///< of the whole run
  std::int64_t ranks = 1;
  std::string model{};       ///< "gpt"
  NamedTexts versions{};     ///< of the program and what it stands on
  NamedTexts given{};        ///< flags and keys that were given, with values
  std::string configuration; ///< everything that is in force, as JSON
};

/// What one rank holds.
struct RunMemory {
  std::int64_t step = 0;
  std::string device{};
  std::vector<NamedValue> bytes{}; ///< "parameters", "gradients", …
};

/// It ended as it was meant to. A run that is killed has none.
struct RunEnd {
  std::int64_t step = 0;
  std::string reason{};
};

using RunEvent = std::variant<RunStart, RunMemory, RunEnd>;

} // namespace cairn::monitor
