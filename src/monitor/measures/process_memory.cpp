#include "monitor/internal/process_memory.h"

#include "base/internal/control_group.h"
#include "base/internal/progress_line.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>

namespace cairn::monitor {
namespace {

constexpr std::uint64_t longest_file = 1 << 20;

std::string text_or_empty(const std::filesystem::path& path) {
  try {
    return read_file(path, longest_file);
  } catch (const DataError&) {
    return {};
  }
}

/// The bytes of a line such as `VmRSS:	    1234 kB`.
std::optional<std::uint64_t> kilobytes(
    std::string_view text,
    std::string_view label) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(label) ||
        !line.substr(label.size()).starts_with(':')) {
      continue;
    }
    line.remove_prefix(label.size() + 1);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    std::uint64_t value = 0;
    const auto [stop, error] =
        std::from_chars(line.data(), line.data() + line.size(), value);
    if (error == std::errc()) {
      return value << 10;
    }
    return std::nullopt;
  }
  return std::nullopt;
}

} // namespace

ProcessMemory ProcessMemory::read(const std::filesystem::path& root) {
  ProcessMemory memory;
  const std::string status = text_or_empty(root / "proc/self/status");
  memory.resident = kilobytes(status, "VmRSS").value_or(0);
  memory.peak_resident = kilobytes(status, "VmHWM").value_or(0);
  const std::string rollup = text_or_empty(root / "proc/self/smaps_rollup");
  memory.proportional = kilobytes(rollup, "Pss");
  const auto clean = kilobytes(rollup, "Private_Clean");
  const auto dirty = kilobytes(rollup, "Private_Dirty");
  if (clean && dirty) {
    memory.own = *clean + *dirty;
  }
  memory.limit =
      kilobytes(text_or_empty(root / "proc/meminfo"), "MemTotal").value_or(0);
  if (const auto group = ControlGroupLimits::read(root).memory_bytes) {
    memory.limit = memory.limit == 0 ? *group : std::min(memory.limit, *group);
  }
  return memory;
}

std::uint64_t anonymous_resident(const std::filesystem::path& root) {
  // Numbers of pages: total, resident, and resident pages of files.
  unsigned long long size = 0;
  unsigned long long resident = 0;
  unsigned long long of_files = 0;
  const std::string text = text_or_empty(root / "proc/self/statm");
  if (std::sscanf(
          text.c_str(),
          "%llu %llu %llu",
          &size,
          &resident,
          &of_files) != 3 ||
      of_files > resident) {
    return 0;
  }
  return (resident - of_files) *
      static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string to_string(const ProcessMemory& memory) {
  const auto shown = [](std::uint64_t bytes) {
    return amount(static_cast<double>(bytes), "B");
  };
  return fmt::format(
      "{} resident (peak {}) of {}",
      shown(memory.resident),
      shown(memory.peak_resident),
      shown(memory.limit));
}

} // namespace cairn::monitor
