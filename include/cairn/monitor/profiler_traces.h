#pragma once

#include <cairn/monitor/profiled_steps.h>

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
  enum class Devices { cpu, cpu_and_gpu };
  struct Options {
    std::vector<StepRange> steps{}; ///< as profiled_steps() gives them
    std::filesystem::path folder{};
    std::int64_t rank = 0;
    Devices devices = Devices::cpu;
  };
  /// Makes the folder if there are steps; throws DataError if it cannot.
  explicit ProfilerTraces(Options options);
  /// Steps that were begun and not ended are given up.
  ~ProfilerTraces();
  ProfilerTraces(ProfilerTraces&&) noexcept;
  ProfilerTraces& operator=(ProfilerTraces&&) noexcept;

  void begin(std::int64_t iteration);
  /// The file, after the last step of a range. Throws DataError where it cannot
  /// be written.
  std::optional<std::filesystem::path> end(std::int64_t iteration);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace cairn::monitor
