#include "kernel_table.h"

#include <ATen/DeviceAccelerator.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace cairn::bench {
namespace {

struct Sum {
  int calls = 0;
  std::int64_t nanoseconds = 0;
};

constexpr int passes = 5;
constexpr std::size_t rows = 40;
constexpr std::size_t letters = 90;

std::string short_name(std::string name) {
  for (const std::string each :
       {"void ",
        "cairn::kernels::cuda::",
        "(anonymous namespace)::",
        "<unnamed>::",
        "at::native::"}) {
    for (auto at = name.find(each); at != std::string::npos;
         at = name.find(each)) {
      name.erase(at, each.size());
    }
  }
  return name.substr(0, letters);
}

double microseconds(std::int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e3 / passes;
}

} // namespace

void print_kernels(const std::string& what, const std::function<void()>& pass) {
  namespace profiler = torch::autograd::profiler;
  using torch::profiler::impl::ActivityType;
  const torch::profiler::impl::ProfilerConfig config(
      torch::profiler::impl::ProfilerState::KINETO);
  const std::set<ActivityType> activities{
      ActivityType::CPU,
      ActivityType::CUDA};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  for (int i = 0; i < passes; ++i) {
    pass();
  }
  at::accelerator::synchronizeDevice(0);
  const auto result = profiler::disableProfiler();
  std::map<std::string, Sum> sums;
  std::int64_t all = 0;
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = 0;
  for (const auto& event : result->events()) {
    if (event.deviceType() == at::kCUDA) {
      const auto length = static_cast<std::int64_t>(event.durationNs());
      const auto start = static_cast<std::int64_t>(event.startNs());
      Sum& sum = sums[short_name(event.name())];
      ++sum.calls;
      sum.nanoseconds += length;
      all += length;
      begin = std::min(begin, start);
      end = std::max(end, start + length);
    }
  }
  std::vector<std::pair<std::string, Sum>> sorted(sums.begin(), sums.end());
  std::ranges::sort(sorted, [](const auto& a, const auto& b) {
    return a.second.nanoseconds > b.second.nanoseconds;
  });
  sorted.resize(std::min(sorted.size(), rows));
  fmt::print(
      "\n| kernel, {} | calls | microseconds of a pass |\n|---|---:|---:|\n",
      what);
  for (const auto& [name, sum] : sorted) {
    fmt::print(
        "| {} | {} | {:.1f} |\n",
        name,
        sum.calls / passes,
        microseconds(sum.nanoseconds));
  }
  fmt::print(
      "| all kernels | | {:.1f} |\n| first to last, under the profiler | | "
      "{:.1f} |\n",
      microseconds(all),
      microseconds(end - begin));
  std::fflush(stdout);
}

} // namespace cairn::bench
