#include "distributed/internal/recorded_calls.h"

#include "distributed/backends/group_core.h"
#include "distributed/internal/agreement.h"

#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::distributed {

struct RecordedCalls::State {
  /// The calls of one group.
  struct Group {
    std::shared_ptr<detail::GroupCore> core;
    std::int64_t calls = 0;
    std::int64_t bytes = 0;
  };
  /// One repetition, as a call of each group.
  struct Repetition {
    std::function<bool()> is_over;
    std::vector<std::shared_ptr<Operation>> operations;
  };

  void note(
      const std::shared_ptr<detail::GroupCore>& core,
      const CollectiveRecord& record);
  std::shared_ptr<Operation> begin(const Group& group) const;
  void end_those_over();

  std::vector<Group> groups; ///< in the order of their first calls
  std::deque<Repetition> under_way;
};

RecordedCalls::RecordedCalls(
    const ProcessGroup& group,
    const std::function<void()>& record)
    : state_(std::make_unique<State>()) {
  const std::shared_ptr<Job>& job = Agreement::core_of(group)->job;
  if (!job) {
    record();
    return;
  }
  const auto listen = [&](Job::OnRecorded listener) {
    const std::lock_guard lock(job->mutex);
    job->on_recorded = std::move(listener);
  };
  listen([this](const auto& core, const CollectiveRecord& call) {
    state_->note(core, call);
  });
  try {
    record();
  } catch (...) {
    listen(nullptr);
    throw;
  }
  listen(nullptr);
}

RecordedCalls::~RecordedCalls() {
  constexpr auto look = std::chrono::milliseconds(1); // between two looks
  for (;;) {
    state_->end_those_over();
    if (state_->under_way.empty() ||
        state_->groups.front().core->job->watchdog->failed()) {
      return;
    }
    std::this_thread::sleep_for(look);
  }
}

bool RecordedCalls::empty() const {
  return state_->groups.empty();
}

void RecordedCalls::check() const {
  if (!empty()) {
    state_->groups.front().core->job->watchdog->throw_if_failed();
  }
}

void RecordedCalls::repeated(std::function<bool()> is_over) {
  state_->end_those_over();
  State::Repetition repetition{.is_over = std::move(is_over)};
  for (const State::Group& group : state_->groups) {
    repetition.operations.push_back(state_->begin(group));
    repetition.operations.back()->end_when(repetition.is_over);
  }
  state_->under_way.push_back(std::move(repetition));
}

void RecordedCalls::State::note(
    const std::shared_ptr<detail::GroupCore>& core,
    const CollectiveRecord& record) {
  for (Group& group : groups) {
    if (group.core == core) {
      ++group.calls;
      group.bytes += record.bytes;
      return;
    }
  }
  groups.push_back({core, 1, record.bytes});
}

std::shared_ptr<Operation> RecordedCalls::State::begin(
    const Group& group) const {
  detail::GroupCore& core = *group.core;
  const std::lock_guard lock(core.mutex);
  core.rethrow_kept();
  auto operation = core.job->watchdog->begin(
      {.sequence = ++core.sequence,
       .operation = "repeat",
       .detail = fmt::format("a CUDA graph with {} calls", group.calls),
       .group = core.name,
       .group_key = core.key,
       .bytes = group.bytes,
       .site = "a recorded step"},
      core.members);
  operation->on_abort([weak = std::weak_ptr(group.core)] {
    if (const auto alive = weak.lock()) {
      alive->backend->abandon();
    }
  });
  core.job->watchdog->recorder().running(operation->record().id);
  return operation;
}

void RecordedCalls::State::end_those_over() {
  while (!under_way.empty() && under_way.front().is_over()) {
    for (const auto& operation : under_way.front().operations) {
      operation->part_ended("");
    }
    under_way.pop_front();
  }
}

} // namespace cairn::distributed
