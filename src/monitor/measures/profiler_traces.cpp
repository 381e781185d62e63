#include "monitor/internal/profiler_traces.h"

#include "base/internal/file_error.h"
#include "monitor/files/host_name.h"
#include "monitor/files/noted_trace.h"
#include "monitor/measures/call_watch.h"
#include "monitor/measures/operator_flops.h"
#include "monitor/measures/traced_modules.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace cairn::monitor {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

ProfilerConfig profiler_config() {
  return ProfilerConfig(
      ProfilerState::KINETO,
      /*report_input_shapes=*/true,
      /*profile_memory=*/true,
      /*with_stack=*/false,
      /*with_flops=*/true,
      /*with_modules=*/false);
}

std::set<ActivityType> profiled_activities(ProfilerTraces::Devices devices) {
  std::set<ActivityType> activities{ActivityType::CPU};
  if (devices == ProfilerTraces::Devices::cpu_and_gpu) {
    activities.insert(ActivityType::CUDA);
  }
  return activities;
}

/// The ends of modules' scopes while steps are traced. libtorch takes plain
/// functions as callbacks.
struct ScopeEnds {
  std::mutex mutex{};
  std::vector<ScopeEnd> seen{};
};
ScopeEnds scope_ends;

std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction&) {
  return nullptr;
}

void on_end(const at::RecordFunction& scope, at::ObserverContext*) {
  const std::lock_guard lock(scope_ends.mutex);
  scope_ends.seen.push_back(
      {.thread = scope.threadId(),
       .name = scope.name(),
       .sequence = static_cast<std::int64_t>(at::sequence_number::peek())});
}

/// Sees the ends of scopes while it lives.
class ScopeWatch {
 public:
  ScopeWatch()
      : callback_(
            at::addGlobalCallback(at::RecordFunctionCallback(on_begin, on_end)
                                      .scopes({at::RecordScope::USER_SCOPE}))) {
    take();
  }
  ~ScopeWatch() { at::removeCallback(callback_); }
  ScopeWatch(const ScopeWatch&) = delete;
  ScopeWatch& operator=(const ScopeWatch&) = delete;

  static std::vector<ScopeEnd> take() {
    const std::lock_guard lock(scope_ends.mutex);
    std::vector<ScopeEnd> ends = std::exchange(scope_ends.seen, {});
    // Those of steps are of no module.
    std::erase_if(ends, [](const ScopeEnd& end) {
      return !end.name.starts_with("nn.Module: ");
    });
    return ends;
  }

 private:
  at::CallbackHandle callback_;
};

/// What the profiler has seen, as far as trace_notes() needs it.
std::vector<TracedEvent> traced_events(
    const std::vector<profiler::KinetoEvent>& events) {
  std::vector<TracedEvent> result;
  result.reserve(events.size());
  for (const profiler::KinetoEvent& event : events) {
    if (event.deviceType() != c10::DeviceType::CPU ||
        event.correlationId() == 0) {
      continue;
    }
    std::string name = event.name();
    std::uint64_t flops = event.flops();
    if (flops == 0 && event.hasShapes()) {
      flops = operator_flops(name, event.shapes().vec());
    }
    result.push_back(
        {.id = event.correlationId(),
         .name = std::move(name),
         .thread = event.startThreadId(),
         .begin = event.startNs(),
         .end = event.endNs(),
         .sequence = event.sequenceNr(),
         .forward_thread = event.fwdThreadId(),
         .flops = flops,
         .is_operator = event.activityType() ==
             static_cast<std::uint8_t>(libkineto::ActivityType::CPU_OP)});
  }
  return result;
}

} // namespace

struct ProfilerTraces::State {
  explicit State(Options given) : options(std::move(given)) {}

  Options options;
  const StepRange* range = nullptr; ///< the range being traced
  std::optional<at::RecordFunction> step{};
  std::shared_ptr<void> scopes{}; ///< a ScopeWatch
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

ProfilerTraces::~ProfilerTraces() {
  if (state_ && state_->range != nullptr) {
    state_->step.reset();
    profiler::disableProfiler();
  }
}

ProfilerTraces::ProfilerTraces(ProfilerTraces&&) noexcept = default;
ProfilerTraces& ProfilerTraces::operator=(ProfilerTraces&&) noexcept = default;

void ProfilerTraces::begin(std::int64_t iteration) {
  const StepRange* const range = state_->range_of(iteration);
  if (range == nullptr) {
    return;
  }
  if (state_->range == nullptr) {
    const auto activities = profiled_activities(state_->options.devices);
    profiler::prepareProfiler(profiler_config(), activities);
    profiler::enableProfiler(
        profiler_config(),
        activities,
        {at::RecordScope::FUNCTION,
         at::RecordScope::BACKWARD_FUNCTION,
         at::RecordScope::USER_SCOPE});
    state_->scopes = std::make_shared<ScopeWatch>();
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
  const auto result = profiler::disableProfiler();
  state_->scopes.reset();
  const std::vector<CalledOperator> calls = state_->calls->take();
  state_->calls.reset();
  const std::filesystem::path file = state_->new_file();
  result->save(file.string());
  // libtorch only logs errors of save().
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    throw file_error("write the trace", file, error ? error.value() : EIO);
  }
  std::vector<TracedEvent> events = traced_events(result->events());
  set_scope_ends(events, ScopeWatch::take());
  set_call_stacks(events, calls);
  add_notes(file, trace_notes(std::move(events)));
  return file;
}

} // namespace cairn::monitor
