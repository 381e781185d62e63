#include "monitor/internal/profiler_traces.h"

#include "base/internal/file_error.h"
#include "monitor/files/host_name.h"
#include "monitor/files/noted_trace.h"
#include "monitor/measures/call_watch.h"
#include "monitor/measures/profiler_session.h"
#include "monitor/measures/traced_modules.h"

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace cairn::monitor {

struct ProfilerTraces::State {
  explicit State(Options given) : options(std::move(given)) {}

  Options options;
  const StepRange* range = nullptr; ///< the range being traced
  std::unique_ptr<ProfilerSession> session{};
  std::optional<at::RecordFunction> step{}; ///< ends before the session
  std::unique_ptr<CallWatch> calls{};

  const StepRange* range_of(std::int64_t iteration) const {
    const auto found = std::find_if(
        options.steps.begin(),
        options.steps.end(),
        [&](const StepRange& r) {
          return r.first <= iteration && iteration <= r.last;
        });
    return found == options.steps.end() ? nullptr : &*found;
  }

  std::filesystem::path new_file() const {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    // TensorBoard's plugin reads the worker and the time from the name.
    return options.folder /
        fmt::format(
               "{}_rank{}.{}.pt.trace.json",
               host_name(),
               options.rank,
               std::chrono::duration_cast<std::chrono::milliseconds>(now)
                   .count());
  }
};

ProfilerTraces::ProfilerTraces(Options options)
    : state_(std::make_unique<State>(std::move(options))) {
  const Options& given = state_->options;
  if (given.steps.empty()) {
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(given.folder, error);
  if (error) {
    throw file_error("make the folder", given.folder, error.value());
  }
}

ProfilerTraces::~ProfilerTraces() = default;

ProfilerTraces::ProfilerTraces(ProfilerTraces&&) noexcept = default;
ProfilerTraces& ProfilerTraces::operator=(ProfilerTraces&&) noexcept = default;

void ProfilerTraces::begin(std::int64_t iteration) {
  const StepRange* const range = state_->range_of(iteration);
  if (range == nullptr) {
    return;
  }
  if (state_->range == nullptr) {
    state_->session =
        std::make_unique<ProfilerSession>(state_->options.devices);
    state_->calls = std::make_unique<CallWatch>();
    state_->range = range;
  }
  // TensorBoard's plugin recognises steps by this name.
  state_->step.emplace(at::RecordScope::USER_SCOPE);
  state_->step->before(fmt::format("ProfilerStep#{}", iteration));
}

std::optional<std::filesystem::path> ProfilerTraces::end(
    std::int64_t iteration) {
  if (state_->range == nullptr) {
    return std::nullopt;
  }
  state_->step.reset();
  if (iteration < state_->range->last) {
    return std::nullopt;
  }
  state_->range = nullptr;
  const std::vector<CalledOperator> calls = state_->calls->take();
  state_->calls.reset();
  ProfilerSession::Seen seen = state_->session->finish();
  state_->session.reset();
  const std::filesystem::path file = state_->new_file();
  seen.result->save(file.string());
  // libtorch only logs errors of save().
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    throw file_error("write the trace", file, error ? error.value() : EIO);
  }
  set_call_stacks(seen.events, calls);
  add_notes(file, trace_notes(std::move(seen.events)));
  return file;
}

} // namespace cairn::monitor
