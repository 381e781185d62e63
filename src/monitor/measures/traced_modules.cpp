#include "monitor/measures/traced_modules.h"

#include <algorithm>
#include <cstddef>
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
  void add(
      std::uint64_t thread,
      std::int64_t sequence,
      const std::string& module) {
    auto& starts = by_thread_[thread];
    if (!starts.empty() && starts.back().first >= sequence) {
      starts.back().second = module;
    } else {
      starts.emplace_back(sequence, module);
    }
  }

  /// The calls that made a node. Called in the order of time.
  void add_stack(
      std::uint64_t thread,
      std::int64_t node,
      const std::shared_ptr<const std::string>& stack) {
    if (stack) {
      stacks_.insert_or_assign({thread, node}, stack);
    }
  }

  std::shared_ptr<const std::string> stack_of(
      std::uint64_t thread,
      std::int64_t node) const {
    const auto found = stacks_.find({thread, node});
    return found == stacks_.end() ? nullptr : found->second;
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
  std::map<
      std::pair<std::uint64_t, std::int64_t>,
      std::shared_ptr<const std::string>>
      stacks_;
};

/// What an event works for, and who called it.
struct Work {
  std::string module;
  std::shared_ptr<const std::string> stack;
};

/// True for a module that is a part of another; all are parts of "", the model.
bool is_within(std::string_view module, std::string_view whole) {
  return !module.empty() &&
      (whole.empty() ||
       (module.size() > whole.size() && module.starts_with(whole) &&
        module[whole.size()] == '.'));
}

/// Calls `found(event, work, scope)` for every event, with what it works for
/// and the innermost scope around it (0: none), and `ended(event, module)` at
/// the end of every scope, with the module around it. `events` are sorted by
/// thread and time.
template <typename Found, typename Ended>
void walk(
    const std::vector<TracedEvent>& events,
    const NodeMakers* makers,
    Found found,
    Ended ended) {
  struct Open {
    const TracedEvent* event;
    Work work;
    std::uint64_t scope;
  };
  std::vector<Open> open;
  const auto around = [&] { return open.empty() ? Work() : open.back().work; };
  const auto close = [&] {
    const TracedEvent& event = *open.back().event;
    open.pop_back();
    if (is_scope(event)) {
      ended(event, around().module);
    }
  };
  for (const TracedEvent& event : events) {
    while (!open.empty() &&
           (open.back().event->thread != event.thread ||
            open.back().event->end <= event.begin)) {
      close();
    }
    const std::uint64_t outer = open.empty() ? 0 : open.back().scope;
    Work work = around();
    std::uint64_t scope = outer;
    if (is_scope(event)) {
      work.module = joined(
          work.module,
          std::string_view(event.name).substr(scope_prefix.size()));
      scope = event.id;
    } else if (makers != nullptr && is_backward(event)) {
      work = {
          makers->of(event.forward_thread, event.sequence),
          makers->stack_of(event.forward_thread, event.sequence)};
    } else if (is_within(event.owner, work.module)) {
      work.module = event.owner;
    }
    if (event.stack) {
      work.stack = event.stack;
    }
    found(event, work, outer);
    open.push_back({&event, std::move(work), scope});
  }
  while (!open.empty()) {
    close();
  }
}

} // namespace

void set_scope_ends(
    std::vector<TracedEvent>& events,
    const std::vector<ScopeEnd>& ends) {
  std::map<std::uint64_t, std::vector<TracedEvent*>> scopes;
  for (TracedEvent& event : events) {
    if (is_scope(event)) {
      scopes[event.thread].push_back(&event);
    }
  }
  std::map<std::uint64_t, std::vector<const ScopeEnd*>> ends_of;
  for (const ScopeEnd& end : ends) {
    ends_of[end.thread].push_back(&end);
  }
  for (auto& [thread, ended] : scopes) {
    // Of two that end at once, the inner one has begun later.
    std::sort(ended.begin(), ended.end(), [](const auto* a, const auto* b) {
      return std::tie(a->end, b->begin) < std::tie(b->end, a->begin);
    });
    const auto& known = ends_of[thread];
    if (!std::equal(
            ended.begin(),
            ended.end(),
            known.begin(),
            known.end(),
            [](const TracedEvent* scope, const ScopeEnd* end) {
              return scope->name == end->name;
            })) {
      continue;
    }
    for (std::size_t i = 0; i < ended.size(); ++i) {
      ended[i]->end_sequence = known[i]->sequence;
    }
  }
}

void set_call_stacks(
    std::vector<TracedEvent>& events,
    const std::vector<CalledOperator>& calls) {
  std::map<std::uint64_t, std::vector<TracedEvent*>> operators;
  for (TracedEvent& event : events) {
    if (event.is_operator) {
      operators[event.thread].push_back(&event);
    }
  }
  std::map<std::uint64_t, std::vector<const CalledOperator*>> calls_of;
  for (const CalledOperator& call : calls) {
    calls_of[call.thread].push_back(&call);
  }
  for (auto& [thread, begun] : operators) {
    std::sort(begun.begin(), begun.end(), [](const auto* a, const auto* b) {
      return std::tie(a->begin, b->end, a->id) <
          std::tie(b->begin, a->end, b->id);
    });
    const auto& known = calls_of[thread];
    std::size_t next = 0;
    std::uint64_t end = 0; // of the last one that no other has called
    for (TracedEvent* event : begun) {
      if (event->begin < end) {
        continue;
      }
      if (next == known.size() || known[next]->name != event->name) {
        break;
      }
      event->stack = known[next++]->stack;
      end = event->end;
    }
  }
}

bool is_backward(const TracedEvent& event) {
  return event.forward_thread != 0 && event.sequence >= 0;
}

void sort_by_time(std::vector<TracedEvent>& events) {
  std::sort(events.begin(), events.end(), [](const auto& a, const auto& b) {
    return std::tie(a.thread, a.begin, b.end, a.id) <
        std::tie(b.thread, b.begin, a.end, b.id);
  });
}

TraceNotes trace_notes(std::vector<TracedEvent> events) {
  sort_by_time(events);
  NodeMakers makers;
  walk(
      events,
      nullptr,
      [&](const TracedEvent& event, const Work& work, std::uint64_t) {
        if (!is_backward(event) && event.sequence >= 0) {
          makers.add(event.thread, event.sequence, work.module);
          makers.add_stack(event.thread, event.sequence, work.stack);
        }
      },
      [&](const TracedEvent& scope, const std::string& around) {
        if (scope.end_sequence >= 0) {
          makers.add(scope.thread, scope.end_sequence, around);
        }
      });
  TraceNotes notes;
  walk(
      events,
      &makers,
      [&](const TracedEvent& event, const Work& work, std::uint64_t around) {
        TraceNote note{
            .module = work.module,
            .flops = event.flops,
            .stack = work.stack};
        if (is_scope(event)) {
          note.scope = TraceNote::Scope{around};
        }
        if (note != TraceNote{}) {
          notes.emplace(event.id, std::move(note));
        }
      },
      [](const TracedEvent&, const std::string&) {});
  return notes;
}

} // namespace cairn::monitor
