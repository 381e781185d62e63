#include "monitor/measures/module_work.h"

#include "base/internal/recorded_names.h"
#include "monitor/measures/operator_flops.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

namespace cairn::monitor {
namespace {

enum class Pass { none, forward, backward };

Pass pass_of(const TracedEvent& event, Pass around) {
  if (event.name == backward_scope || is_backward(event) ||
      (around == Pass::forward && event.name == base::gradients_scope) ||
      event.name.starts_with("autograd::engine::evaluate_function")) {
    return Pass::backward;
  }
  return around == Pass::none && event.name == forward_scope ? Pass::forward
                                                             : around;
}

/// Sums of one module over all passes.
struct Sums {
  std::uint64_t forward_macs = 0;
  std::uint64_t forward_flops = 0;
  std::uint64_t backward_flops = 0;
  std::uint64_t forward_time = 0; ///< ns
  std::uint64_t backward_time = 0;

  void add(const TracedEvent& event, Pass pass, std::uint64_t time) {
    if (pass == Pass::forward) {
      forward_flops += event.flops;
      forward_macs += is_product(event.name) ? event.flops / 2 : 0;
      forward_time += time;
    } else if (pass == Pass::backward) {
      backward_flops += event.flops;
      backward_time += time;
    }
  }
};

/// Adds an event to its module and to all modules around it.
void add_to_all(
    std::map<std::string, Sums>& sums,
    const std::string& module,
    const TracedEvent& event,
    Pass pass,
    std::uint64_t time) {
  for (const std::string& each : way_to(module)) {
    sums[each].add(event, pass, time);
  }
}

/// The value of a part of a path that is a number; else -1.
std::int64_t number_in(std::string_view part) {
  std::int64_t number = -1;
  const auto end = part.data() + part.size();
  return std::from_chars(part.data(), end, number).ptr == end ? number : -1;
}

} // namespace

bool ModuleOrder::operator()(const std::string& a, const std::string& b) const {
  std::string_view left = a;
  std::string_view right = b;
  while (!left.empty() && !right.empty()) {
    const std::string_view first = left.substr(0, left.find('.'));
    const std::string_view second = right.substr(0, right.find('.'));
    if (first != second) {
      const std::int64_t one = number_in(first);
      const std::int64_t other = number_in(second);
      return one != other ? one < other : first < second;
    }
    left.remove_prefix(std::min(left.size(), first.size() + 1));
    right.remove_prefix(std::min(right.size(), second.size() + 1));
  }
  return left.size() < right.size();
}

std::vector<std::string> way_to(const std::string& module) {
  std::vector<std::string> way{""};
  for (std::size_t end = 0; end != std::string::npos && !module.empty();) {
    end = module.find('.', end + 1);
    way.push_back(module.substr(0, end));
  }
  return way;
}

void add_work(
    std::vector<TracedEvent> events,
    std::int64_t passes,
    ModuleProfile& modules) {
  sort_by_time(events);
  const TraceNotes notes = trace_notes(events);
  const bool on_gpu = std::ranges::any_of(events, [](const TracedEvent& each) {
    return each.device_time > 0;
  });
  struct Open {
    const TracedEvent* event;
    Pass pass;
    std::uint64_t within = 0; ///< time of what it calls
  };
  std::vector<Open> open;
  std::map<std::string, Sums> sums;
  const auto close = [&] {
    const Open last = open.back();
    open.pop_back();
    const TracedEvent& event = *last.event;
    const std::uint64_t whole = event.end - event.begin;
    if (!open.empty()) {
      open.back().within += whole;
    }
    const auto note = notes.find(event.id);
    add_to_all(
        sums,
        note == notes.end() ? std::string() : note->second.module,
        event,
        last.pass,
        on_gpu ? event.device_time : whole - std::min(whole, last.within));
  };
  for (const TracedEvent& event : events) {
    while (!open.empty() &&
           (open.back().event->thread != event.thread ||
            open.back().event->end <= event.begin)) {
      close();
    }
    const Pass around = open.empty() ? Pass::none : open.back().pass;
    open.push_back({&event, pass_of(event, around)});
  }
  while (!open.empty()) {
    close();
  }
  const auto count =
      static_cast<std::uint64_t>(std::max<std::int64_t>(1, passes));
  for (const auto& [module, all] : sums) {
    ModuleWork& work = modules[module];
    work.forward_macs = all.forward_macs / count;
    work.forward_flops = all.forward_flops / count;
    work.backward_flops = all.backward_flops / count;
    work.forward_seconds = 1e-9 * static_cast<double>(all.forward_time) /
        static_cast<double>(count);
    work.backward_seconds = 1e-9 * static_cast<double>(all.backward_time) /
        static_cast<double>(count);
  }
}

bool has_trials(const std::vector<TracedEvent>& events) {
  return std::ranges::find(events, base::trial_operator, &TracedEvent::name) !=
      events.end();
}

} // namespace cairn::monitor
