#pragma once

#include "monitor/internal/profiled_devices.h"
#include "monitor/internal/profiled_steps.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

namespace cairn::monitor {

/// Traces of chosen steps by libtorch's profiler: operators with their shapes,
/// memory and operation counts, kernels of a GPU. One file per range of steps,
/// `FOLDER/HOST_rankN.TIME.pt.trace.json`, for chrome://tracing, Perfetto and
/// TensorBoard's profiler plugin.
///
///   for (…) {
///     traces.begin(iteration);
///     …
///     if (const auto file = traces.end(iteration)) { … }
///   }
///
/// begin() and end() belong on the thread that calls the model.
class ProfilerTraces {
 public:
  using Devices = ProfiledDevices;
  struct Options {
    std::vector<StepRange> steps{}; ///< from profiled_steps()
    std::filesystem::path folder{};
    std::int64_t rank = 0;
    Devices devices = Devices::cpu;
  };
  /// Makes the folder if there are steps to trace; throws DataError if it
  /// cannot.
  explicit ProfilerTraces(Options options);
  /// Discards steps that were begun and not ended.
  ~ProfilerTraces();
  ProfilerTraces(ProfilerTraces&&) noexcept;
  ProfilerTraces& operator=(ProfilerTraces&&) noexcept;

  void begin(std::int64_t iteration);
  /// Ends a step; after the last step of a range returns the file. Throws
  /// DataError when the file cannot be written.
  std::optional<std::filesystem::path> end(std::int64_t iteration);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace cairn::monitor
