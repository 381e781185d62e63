#pragma once

#include <torch/csrc/autograd/profiler_kineto.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace cairn::testing {

struct Interval {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// The work of a GPU, as its own trace has it.
struct GpuTrace {
  std::vector<Interval> kernels;  ///< those of NCCL not counted
  std::vector<std::string> names; ///< of these kernels
  std::vector<Interval> messages; ///< kernels of NCCL
  std::vector<Interval> to_host;
  std::vector<Interval> to_device;
};

/// Traces `step`, which waits for the GPU at its end. The trace is written to
/// the folder CAIRN_TRACE_DIR, where that is set.
inline GpuTrace traced(
    const std::string& name,
    const std::function<void()>& step) {
  const torch::profiler::impl::ProfilerConfig config(
      torch::profiler::impl::ProfilerState::KINETO);
  const std::set activities{
      torch::profiler::impl::ActivityType::CPU,
      torch::profiler::impl::ActivityType::CUDA};
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities);
  step();
  const auto result = torch::autograd::profiler::disableProfiler();
  GpuTrace trace;
  for (const torch::autograd::profiler::KinetoEvent& event : result->events()) {
    if (event.deviceType() != c10::DeviceType::CUDA) {
      continue;
    }
    const std::string what = event.name();
    const Interval interval{event.startNs(), event.endNs()};
    if (what.find("Memcpy DtoH") != std::string::npos) {
      trace.to_host.push_back(interval);
    } else if (what.find("Memcpy HtoD") != std::string::npos) {
      trace.to_device.push_back(interval);
    } else if (what.starts_with("nccl")) {
      trace.messages.push_back(interval);
    } else if (
        what.find("Memcpy") == std::string::npos &&
        what.find("Memset") == std::string::npos) {
      trace.kernels.push_back(interval);
      trace.names.push_back(what);
    }
  }
  if (const char* folder = std::getenv("CAIRN_TRACE_DIR")) {
    result->save(std::string(folder) + "/" + name + ".json");
  }
  return trace;
}

} // namespace cairn::testing
