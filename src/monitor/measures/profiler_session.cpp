#include "monitor/measures/profiler_session.h"

#include "monitor/measures/operator_flops.h"
#include "monitor/measures/operator_owners.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

namespace cairn::monitor {
namespace {

namespace profiler = torch::autograd::profiler;
namespace impl = torch::profiler::impl;

impl::ProfilerConfig profiler_config() {
  return impl::ProfilerConfig(
      impl::ProfilerState::KINETO,
      /*report_input_shapes=*/true,
      /*profile_memory=*/true,
      /*with_stack=*/false,
      /*with_flops=*/true,
      /*with_modules=*/false);
}

std::set<impl::ActivityType> activities_of(ProfiledDevices devices) {
  std::set<impl::ActivityType> activities{impl::ActivityType::CPU};
  if (devices == ProfiledDevices::cpu_and_gpu) {
    activities.insert(impl::ActivityType::CUDA);
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

/// What the profiler has seen, as far as trace_notes() needs it.
std::vector<TracedEvent> traced_events(
    const profiler::ProfilerResult& seen,
    const ParameterOwners& owners) {
  auto owner_by_id = operator_owners(seen, owners);
  std::unordered_map<std::uint64_t, std::uint64_t> device_time;
  for (const profiler::KinetoEvent& event : seen.events()) {
    if (event.deviceType() != c10::DeviceType::CPU) {
      device_time[event.linkedCorrelationId()] += event.durationNs();
    }
  }
  std::vector<TracedEvent> result;
  result.reserve(seen.events().size());
  for (const profiler::KinetoEvent& event : seen.events()) {
    const std::uint64_t id = event.correlationId();
    if (event.deviceType() != c10::DeviceType::CPU || id == 0) {
      continue;
    }
    TracedEvent traced{
        .id = id,
        .name = event.name(),
        .thread = event.startThreadId(),
        .begin = event.startNs(),
        .end = event.endNs(),
        .sequence = event.sequenceNr(),
        .forward_thread = event.fwdThreadId(),
        .flops = event.flops(),
        .is_operator = event.activityType() ==
            static_cast<std::uint8_t>(libkineto::ActivityType::CPU_OP)};
    if (traced.flops == 0 && event.hasShapes()) {
      traced.flops = operator_flops(traced.name, event.shapes().vec());
    }
    if (const auto found = owner_by_id.find(id); found != owner_by_id.end()) {
      traced.owner = std::move(found->second);
    }
    if (const auto found = device_time.find(id); found != device_time.end()) {
      traced.device_time = found->second;
    }
    result.push_back(std::move(traced));
  }
  return result;
}

} // namespace

/// Sees the ends of scopes while it lives.
class ProfilerSession::ScopeWatch {
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

ProfilerSession::ProfilerSession(ProfiledDevices devices) {
  const auto activities = activities_of(devices);
  profiler::prepareProfiler(profiler_config(), activities);
  profiler::enableProfiler(
      profiler_config(),
      activities,
      {at::RecordScope::FUNCTION,
       at::RecordScope::BACKWARD_FUNCTION,
       at::RecordScope::USER_SCOPE});
  scopes_ = std::make_unique<ScopeWatch>();
}

ProfilerSession::~ProfilerSession() {
  if (scopes_) {
    profiler::disableProfiler();
  }
}

bool ProfilerSession::any_runs() {
  return impl::profilerEnabled();
}

ProfilerSession::Seen ProfilerSession::finish(const ParameterOwners& owners) {
  Seen seen{.result = profiler::disableProfiler(), .events = {}};
  scopes_.reset();
  seen.events = traced_events(*seen.result, owners);
  set_scope_ends(seen.events, ScopeWatch::take());
  return seen;
}

} // namespace cairn::monitor
