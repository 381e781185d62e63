#include "base/internal/control_group.h"

#include "base/system_text.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

namespace cairn::inline base {
namespace {

/// Removes the leading number from `text` and returns it; none for `max` and
/// -1, which mean "no limit".
std::optional<std::uint64_t> number(std::string_view& text) {
  std::uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return value;
}

std::optional<std::uint64_t> number_in(const std::filesystem::path& path) {
  const std::string text = system_text(path);
  std::string_view rest = text;
  return number(rest);
}

template <typename T>
void tighten(std::optional<T>& limit, T other) {
  limit = limit ? std::min(*limit, other) : other;
}

void tighten_cpus(
    ControlGroupLimits& limits,
    std::optional<std::uint64_t> quota,
    std::optional<std::uint64_t> period) {
  if (quota && period && *quota > 0 && *period > 0) {
    tighten(
        limits.cpus,
        static_cast<double>(*quota) / static_cast<double>(*period));
  }
}

void apply(ControlGroupLimits& limits, const std::filesystem::path& folder) {
  const std::string cpu_max = system_text(folder / "cpu.max");
  std::string_view rest = cpu_max;
  const auto quota = number(rest);
  tighten_cpus(limits, quota, number(rest));
  tighten_cpus(
      limits,
      number_in(folder / "cpu.cfs_quota_us"),
      number_in(folder / "cpu.cfs_period_us"));
  for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
    if (const auto bytes = number_in(folder / name)) {
      tighten(limits.memory_bytes, *bytes);
    }
  }
}

} // namespace

ControlGroupLimits ControlGroupLimits::read(const std::filesystem::path& root) {
  ControlGroupLimits limits;
  const std::filesystem::path mounts = root / "sys/fs/cgroup";
  const std::string groups = system_text(root / "proc/self/cgroup");
  std::string_view rest = groups;
  while (!rest.empty()) {
    // `0::/path` in version 2, `4:cpu,cpuacct:/path` in version 1.
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t first = line.find(':');
    const std::size_t second =
        first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) {
      continue;
    }
    const std::filesystem::path mount =
        mounts / line.substr(first + 1, second - first - 1);
    // A limit holds for all groups below it. Inside a container the path may be
    // the host's, of which only the mount's own folder is visible.
    std::filesystem::path group =
        std::filesystem::path(line.substr(second + 1)).relative_path();
    for (; !group.empty(); group = group.parent_path()) {
      apply(limits, mount / group);
    }
    apply(limits, mount);
  }
  return limits;
}

} // namespace cairn::base
