#include "monitor/measures/profiler_session.h"

#include "monitor/measures/operator_flops.h"
#include "monitor/measures/operator_owners.h"
#include "monitor/measures/profiled_events.h"

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

ProfiledEvent::Kind kind_of(const profiler::KinetoEvent& event) {
  using Kind = ProfiledEvent::Kind;
  using libkineto::ActivityType;
  switch (static_cast<ActivityType>(event.activityType())) {
    case ActivityType::CPU_OP:
      return Kind::operation;
    case ActivityType::USER_ANNOTATION:
      return Kind::scope;
    case ActivityType::CONCURRENT_KERNEL:
    case ActivityType::GPU_MEMCPY:
    case ActivityType::GPU_MEMSET:
      return Kind::kernel;
    default:
      return Kind::other;
  }
}

/// What the profiler has seen, as far as trace_notes() needs it.
std::vector<TracedEvent> traced_events(
    const profiler::ProfilerResult& seen,
    const OperatorModules& modules) {
  const auto owners = operator_owners(seen, modules);
  std::vector<ProfiledEvent> events;
  events.reserve(seen.events().size());
  for (const profiler::KinetoEvent& event : seen.events()) {
    ProfiledEvent profiled{
        .kind = kind_of(event),
        .event =
            {.id = event.correlationId(),
             .name = event.name(),
             .thread = event.startThreadId(),
             .begin = event.startNs(),
             .end = event.endNs()},
        .started_by = event.linkedCorrelationId()};
    if (profiled.kind == ProfiledEvent::Kind::operation ||
        profiled.kind == ProfiledEvent::Kind::scope) {
      TracedEvent& traced = profiled.event;
      traced.sequence = event.sequenceNr();
      traced.forward_thread = event.fwdThreadId();
      traced.flops = event.flops();
      if (traced.flops == 0 && event.hasShapes()) {
        traced.flops = operator_flops(traced.name, event.shapes().vec());
      }
      if (const auto found = owners.find(traced.id); found != owners.end()) {
        traced.owner = found->second;
      }
    }
    events.push_back(std::move(profiled));
  }
  return operators_and_scopes(std::move(events));
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

ProfilerSession::Seen ProfilerSession::finish(const OperatorModules& modules) {
  Seen seen{.result = profiler::disableProfiler(), .events = {}};
  scopes_.reset();
  seen.events = traced_events(*seen.result, modules);
  set_scope_ends(seen.events, ScopeWatch::take());
  return seen;
}

} // namespace cairn::monitor
