#include "base/cpu_model.h"
#include "base/internal/control_group.h"
#include "base/internal/cpu.h"
#include "base/system_text.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <set>
#include <system_error>

namespace cairn::inline base {
namespace {

int count_cores(const std::vector<int>& cpus) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    std::string siblings = system_text(fmt::format(
        "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list",
        cpu));
    if (siblings.empty()) {
      siblings = fmt::format("cpu {} alone", cpu);
    }
    cores.insert(std::move(siblings));
  }
  return static_cast<int>(cores.size());
}

std::uint64_t built_in_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_size = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page_size > 0 ? static_cast<std::uint64_t>(pages) *
          static_cast<std::uint64_t>(page_size)
                                    : 0;
}

} // namespace

std::vector<int> allowed_cpus() {
  // The kernel refuses a mask smaller than its own and does not say how large
  // its own is, so the size is doubled until it fits.
  constexpr std::size_t most_words = 1 << 12;
  for (std::size_t words = 16; words <= most_words; words *= 2) {
    std::vector<unsigned long> mask(words);
    const std::size_t bytes = mask.size() * sizeof(unsigned long);
    if (::sched_getaffinity(
            0,
            bytes,
            reinterpret_cast<cpu_set_t*>(mask.data())) != 0) {
      if (errno == EINVAL) {
        continue;
      }
      break;
    }
    constexpr std::size_t bits = sizeof(unsigned long) * CHAR_BIT;
    std::vector<int> cpus;
    for (std::size_t cpu = 0; cpu < words * bits; ++cpu) {
      if (((mask[cpu / bits] >> (cpu % bits)) & 1) != 0) {
        cpus.push_back(static_cast<int>(cpu));
      }
    }
    return cpus;
  }
  throw std::system_error(errno, std::generic_category(), "sched_getaffinity");
}

CpuInfo CpuInfo::detect() {
  const std::vector<int> cpus = allowed_cpus();
  const ControlGroupLimits limits = ControlGroupLimits::read();
  CpuInfo info;
  info.model = cpu_model(system_text("/proc/cpuinfo"));
  info.features = CpuFeatures::detect();
  info.logical_cpus = static_cast<int>(cpus.size());
  info.physical_cores = count_cores(cpus);
  info.memory_bytes = built_in_memory();
  if (limits.cpus) {
    // Half a CPU still runs one thread.
    const int share = static_cast<int>(
        std::ceil(std::clamp(*limits.cpus, 1.0, double{INT_MAX})));
    info.logical_cpus = std::min(info.logical_cpus, share);
    info.physical_cores = std::min(info.physical_cores, share);
  }
  if (limits.memory_bytes) {
    info.memory_bytes = std::min(info.memory_bytes, *limits.memory_bytes);
  }
  return info;
}

} // namespace cairn::base
