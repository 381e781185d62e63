#pragma once

#include <cairn/monitor/named_value.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// Events of a run other than iterations, for files that can hold them.

namespace cairn::monitor {

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

/// The run starts, or resumes after `step`. A second one in a file is a
/// restart.
struct RunStart {
  std::int64_t step = 0;
  std::int64_t iterations = 0; ///< of the whole run
  std::int64_t ranks = 1;
  std::string model{};       ///< "gpt"
  NamedTexts versions{};     ///< of the program and its libraries
  NamedTexts given{};        ///< flags and keys given, with their values
  std::string configuration; ///< all settings in force, as JSON
};

/// The memory that one rank holds.
struct RunMemory {
  std::int64_t step = 0;
  std::string device{};
  std::vector<NamedValue> bytes{}; ///< "parameters", "gradients", …
};

/// The run ended as planned. A killed run has no such event.
struct RunEnd {
  std::int64_t step = 0;
  std::string reason{};
};

using RunEvent = std::variant<RunStart, RunMemory, RunEnd>;

} // namespace cairn::monitor
