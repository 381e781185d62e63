#include "monitor/measures/call_watch.h"

#include "monitor/measures/function_names.h"

#include <ATen/record_function.h>

#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace cairn::monitor {

namespace {

constexpr std::size_t most_calls = 64;

struct SeenOperator {
  std::uint64_t thread = 0;
  std::string name;
  std::vector<void*> calls;
};

/// What operators have begun while a CallWatch lives. libtorch takes plain
/// functions as callbacks.
struct SeenOperators {
  std::mutex mutex{};
  std::vector<SeenOperator> seen{};
};
SeenOperators operators;

/// The operators around a thread's next one.
thread_local int depth = 0;

std::unique_ptr<at::ObserverContext> operator_begins(
    const at::RecordFunction& fn) {
  if (depth++ == 0) {
    SeenOperator found{.thread = fn.threadId(), .name = fn.name()};
    // Nodes of a backward pass are called by autograd's engine.
    if (fn.scope() == at::RecordScope::FUNCTION) {
      std::array<void*, most_calls> calls{};
      const int count = std::max(
          ::backtrace(calls.data(), static_cast<int>(calls.size())),
          1);
      // The first one is this function.
      found.calls.assign(calls.begin() + 1, calls.begin() + count);
    }
    const std::lock_guard lock(operators.mutex);
    operators.seen.push_back(std::move(found));
  }
  return nullptr;
}

void operator_ends(const at::RecordFunction&, at::ObserverContext*) {
  --depth;
}

} // namespace

struct CallWatch::State {
  FunctionNames names{};
  std::map<std::vector<void*>, std::shared_ptr<const std::string>> texts{};
  at::CallbackHandle callback{};

  std::shared_ptr<const std::string> text_of(const std::vector<void*>& calls) {
    const auto [place, added] = texts.try_emplace(calls);
    if (added) {
      std::string text;
      for (void* call : calls) {
        // A call returns behind itself, which may be another function.
        const std::string& name = names.of(static_cast<char*>(call) - 1);
        if (!name.empty() && !is_inside_libraries(name)) {
          text += (text.empty() ? "" : ";") + name;
        }
      }
      place->second = text.empty()
          ? nullptr
          : std::make_shared<const std::string>(std::move(text));
    }
    return place->second;
  }
};

CallWatch::CallWatch() : state_(std::make_unique<State>()) {
  {
    const std::lock_guard lock(operators.mutex);
    operators.seen.clear();
  }
  state_->callback = at::addGlobalCallback(
      at::RecordFunctionCallback(operator_begins, operator_ends)
          .needsIds(true)
          .scopes(
              {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

CallWatch::~CallWatch() {
  at::removeCallback(state_->callback);
}

std::vector<CalledOperator> CallWatch::take() {
  std::vector<SeenOperator> seen;
  {
    const std::lock_guard lock(operators.mutex);
    seen = std::exchange(operators.seen, {});
  }
  std::vector<CalledOperator> result;
  result.reserve(seen.size());
  for (SeenOperator& one : seen) {
    result.push_back(
        {.thread = one.thread,
         .name = std::move(one.name),
         .stack = state_->text_of(one.calls)});
  }
  return result;
}

} // namespace cairn::monitor
