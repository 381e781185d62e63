#include "monitor/measures/profiled_events.h"

#include <unordered_map>
#include <utility>

namespace cairn::monitor {

std::vector<TracedEvent> operators_and_scopes(
    std::vector<ProfiledEvent> events) {
  using Kind = ProfiledEvent::Kind;
  std::unordered_map<std::uint64_t, std::uint64_t> device_time;
  for (const ProfiledEvent& each : events) {
    if (each.kind == Kind::kernel) {
      device_time[each.started_by] += each.event.end - each.event.begin;
    }
  }
  std::vector<TracedEvent> result;
  result.reserve(events.size());
  for (ProfiledEvent& each : events) {
    const bool kept = each.kind == Kind::operation || each.kind == Kind::scope;
    if (!kept || each.event.id == 0) {
      continue;
    }
    TracedEvent event = std::move(each.event);
    event.is_operator = each.kind == Kind::operation;
    const auto found = device_time.find(event.id);
    event.device_time = found == device_time.end() ? 0 : found->second;
    result.push_back(std::move(event));
  }
  return result;
}

} // namespace cairn::monitor
