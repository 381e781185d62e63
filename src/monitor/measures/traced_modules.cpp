#include "monitor/measures/traced_modules.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace cairn::monitor {
namespace {

constexpr std::string_view scope_prefix = "nn.Module: ";

bool is_scope(const TracedEvent& event) {
  return event.name.starts_with(scope_prefix);
}

std::string joined(const std::string& outer, std::string_view name) {
  return outer.empty() ? std::string(name) : outer + "." + std::string(name);
}

/// Which module made the nodes of autograd, by their numbers.
class NodeMakers {
 public:
  /// From this number on, nodes of the thread are the module's. Called in the
  /// order of time.
  void add(const TracedEvent& event, const std::string& module) {
    auto& starts = by_thread_[event.thread];
    if (!starts.empty() && starts.back().first >= event.sequence) {
      starts.back() = {starts.back().first, module};
    } else {
      starts.emplace_back(event.sequence, module);
    }
  }

  std::string of(std::uint64_t thread, std::int64_t node) const {
    const auto found = by_thread_.find(thread);
    if (found == by_thread_.end()) {
      return {};
    }
    const auto& starts = found->second;
    const auto after = std::upper_bound(
        starts.begin(),
        starts.end(),
        node,
        [](std::int64_t number, const auto& start) {
          return number < start.first;
        });
    return after == starts.begin() ? std::string() : std::prev(after)->second;
  }

 private:
  std::map<std::uint64_t, std::vector<std::pair<std::int64_t, std::string>>>
      by_thread_;
};

bool is_backward(const TracedEvent& event) {
  return event.forward_thread != 0 && event.sequence >= 0;
}

/// Calls `found(event, module, scope)` for every event, with the module that it
/// works for and the innermost scope around it (0: none). `events` are sorted
/// by thread and time.
template <typename Found>
void walk(
    const std::vector<TracedEvent>& events,
    const NodeMakers* makers,
    Found found) {
  struct Open {
    std::uint64_t end;
    std::string module;
    std::uint64_t scope;
  };
  std::vector<Open> open;
  std::uint64_t thread = 0;
  for (const TracedEvent& event : events) {
    if (event.thread != thread) {
      open.clear();
      thread = event.thread;
    }
    while (!open.empty() && open.back().end <= event.begin) {
      open.pop_back();
    }
    const std::uint64_t around = open.empty() ? 0 : open.back().scope;
    std::string module = open.empty() ? std::string() : open.back().module;
    std::uint64_t scope = around;
    if (is_scope(event)) {
      module = joined(
          module,
          std::string_view(event.name).substr(scope_prefix.size()));
      scope = event.id;
    } else if (makers != nullptr && is_backward(event)) {
      module = makers->of(event.forward_thread, event.sequence);
    }
    found(event, module, around);
    open.push_back({event.end, std::move(module), scope});
  }
}

} // namespace

TraceNotes trace_notes(std::vector<TracedEvent> events) {
  std::sort(events.begin(), events.end(), [](const auto& a, const auto& b) {
    return std::tie(a.thread, a.begin, b.end, a.id) <
        std::tie(b.thread, b.begin, a.end, b.id);
  });
  NodeMakers makers;
  walk(
      events,
      nullptr,
      [&](const TracedEvent& event, const std::string& module, std::uint64_t) {
        if (!is_backward(event) && event.sequence >= 0) {
          makers.add(event, module);
        }
      });
  TraceNotes notes;
  walk(
      events,
      &makers,
      [&](const TracedEvent& event,
          const std::string& module,
          std::uint64_t around) {
        TraceNote note{.module = module, .flops = event.flops};
        if (is_scope(event)) {
          note.scope = TraceNote::Scope{around};
        }
        if (note != TraceNote{}) {
          notes.emplace(event.id, std::move(note));
        }
      });
  return notes;
}

} // namespace cairn::monitor
