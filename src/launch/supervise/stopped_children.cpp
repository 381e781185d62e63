#include "launch/supervise/stopped_children.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

namespace cairn::launch {
namespace {

/// Time that a rank may be stopped while others wait for it: what its
/// environment says, or `otherwise`.
std::chrono::seconds patience_with_stopped(
    const ChildSpec& spec,
    std::chrono::seconds otherwise) {
  constexpr std::string_view name = "CAIRN_COLLECTIVE_TIMEOUT=";
  for (const std::string& entry : spec.process.environment) {
    long seconds = 0;
    if (entry.starts_with(name) &&
        std::from_chars(
            entry.data() + name.size(),
            entry.data() + entry.size(),
            seconds)
                .ec == std::errc{} &&
        seconds > 0) {
      constexpr long month = 30L * 24 * 3600;
      return std::chrono::seconds(std::min(seconds, month));
    }
  }
  return otherwise;
}

/// True when all children that run are stopped, and none has failed: somebody
/// has paused the job, and nobody waits in vain. Other ranks of a node's
/// launcher may be elsewhere and wait.
bool is_paused(const Children& children, const SupervisionOptions& options) {
  const auto runs = [](const auto& child) { return child->running(); };
  return !options.is_node_launcher && std::ranges::any_of(children, runs) &&
      std::ranges::all_of(children, [](const auto& child) {
        return child->running() ? child->stopped_since().has_value()
                                : !child->failed();
      });
}

} // namespace

void end_pause(const Children& children, const SupervisionOptions& options) {
  if (!is_paused(children, options)) {
    return;
  }
  for (const auto& child : children) {
    if (const auto since = child->stopped_since()) {
      child->forgive(std::chrono::steady_clock::now() - *since);
    }
  }
}

SupervisedChild* first_stopped(
    const Children& children,
    const SupervisionOptions& options) {
  SupervisedChild* first = nullptr;
  for (const auto& child : children) {
    const auto since = child->stopped_since();
    if (since && (first == nullptr || *since < *first->stopped_since())) {
      first = child.get();
    }
  }
  return is_paused(children, options) ? nullptr : first;
}

std::optional<std::chrono::steady_clock::time_point> deadline_of_stopped(
    const Children& children,
    const SupervisionOptions& options) {
  const SupervisedChild* const first = first_stopped(children, options);
  return first == nullptr
      ? std::nullopt
      : std::optional(
            *first->stopped_since() +
            patience_with_stopped(first->spec(), options.patience));
}

} // namespace cairn::launch
