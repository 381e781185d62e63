#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace cairn::monitor {

/// An operator or a scope, as a profiler has seen it.
struct TracedEvent {
  std::uint64_t id = 0; ///< "External id" in a trace file
  std::string name{};
  std::uint64_t thread = 0;
  std::uint64_t begin = 0; ///< in ns, like `end`
  std::uint64_t end = 0;
  /// The next node of autograd when it began; of a backward pass, the node. -1
  /// if autograd had no part in it.
  std::int64_t sequence = -1;
  /// The next node of autograd when the scope of a module ended; -1: not known.
  std::int64_t end_sequence = -1;
  std::uint64_t forward_thread = 0; ///< of a backward pass; else 0
  std::uint64_t flops = 0;
  bool is_operator = false; ///< or a node of autograd
  /// The functions that lead to it, the innermost first: "a::f;b::g;main".
  std::shared_ptr<const std::string> stack{};
  /// The module of a parameter that the operator takes; empty if it takes none.
  std::string owner{};
  std::uint64_t device_time = 0; ///< ns of its kernels on a GPU
};

/// True for the event of a backward pass through a node of autograd.
bool is_backward(const TracedEvent& event);

/// Sorts events so that each comes before those within it.
void sort_by_time(std::vector<TracedEvent>& events);

/// What is known of an event beyond what the profiler itself writes.
struct TraceNote {
  std::string module{}; ///< such as "decoder.blocks.0.attention"; may be empty
  std::uint64_t flops = 0;
  /// Of the scope of a module itself; `parent` is 0 for the outermost.
  struct Scope {
    std::uint64_t parent = 0;
    bool operator==(const Scope&) const = default;
  };
  std::optional<Scope> scope{};
  std::shared_ptr<const std::string> stack{}; ///< as that of TracedEvent

  bool operator==(const TraceNote&) const = default;
};

/// By an event's `id`; events of which nothing is known are left out.
using TraceNotes = std::unordered_map<std::uint64_t, TraceNote>;

/// The end of a module's scope, as the program has seen it. A profiler does not
/// tell the node of autograd that was the next one then.
struct ScopeEnd {
  std::uint64_t thread = 0;
  std::string name{};
  std::int64_t sequence = -1;
};

/// Gives the scopes among the events their `end_sequence`. `ends` are in the
/// order of time. A thread where they do not match the scopes gets none.
void set_scope_ends(
    std::vector<TracedEvent>& events,
    const std::vector<ScopeEnd>& ends);

/// An operator that no other one has called, as the program has seen it.
struct CalledOperator {
  std::uint64_t thread = 0;
  std::string name{};
  std::shared_ptr<const std::string> stack{}; ///< as that of TracedEvent
};

/// Gives the operators among the events that no other one has called their
/// `stack`. `calls` are in the order of time. From the first one on that does
/// not match the events, a thread's operators get none.
void set_call_stacks(
    std::vector<TracedEvent>& events,
    const std::vector<CalledOperator>& calls);

/// Finds the module that every event works for: of a forward pass, by the
/// scopes around it (events named "nn.Module: NAME"), and within these by the
/// parameters that it takes; of a backward pass, by the module for which
/// autograd made the node. Stacks are those of the operators around; of a
/// backward pass, that of the operator that made the node.
TraceNotes trace_notes(std::vector<TracedEvent> events);

} // namespace cairn::monitor
