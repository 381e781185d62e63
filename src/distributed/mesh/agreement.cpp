#include "distributed/internal/agreement.h"

#include "distributed/backends/group_core.h"
#include "distributed/start/handshake.h"
#include "distributed/start/store.h"
#include "distributed/watch/watchdog.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace cairn::distributed {

namespace {

constexpr char answered = '+';
constexpr char threw = '-';

/// The first call of a rank that belongs after a meeting, if it has made one.
/// `called` has the collectives that come before the meeting.
std::optional<std::string> later_call(
    const Notes& notes,
    const std::map<std::string, std::uint64_t>& called) {
  for (const auto& [group, sequence] : called) {
    const auto reached = notes.reached.find(group);
    if (reached == notes.reached.end() || reached->second <= sequence) {
      continue;
    }
    for (const CollectiveRecord& record : notes.records) {
      if (record.group_key == group && !record.peer &&
          record.sequence > sequence) {
        return fmt::format("{} at {}", name_of(record), record.site);
      }
    }
    return fmt::format("collective #{}", reached->second);
  }
  return std::nullopt;
}

} // namespace

struct Agreement::Meeting {
  std::string what;
  std::chrono::milliseconds timeout;
  /// Number of collectives that this rank called before, by group key.
  std::map<std::string, std::uint64_t> called;
};

Agreement::Agreement(ProcessGroup group, std::string name)
    : group_(std::move(group)) {
  detail::GroupCore& core = *group_.core_;
  if (core.watched) {
    const std::lock_guard lock(core.mutex);
    place_ =
        fmt::format("agree/{}/{}/{}", core.key, name, ++core.agreements[name]);
    store_ = core.job->store->clone();
  }
}

Agreement::~Agreement() = default;

/// The reason why there is no use in waiting for a rank; empty if there is use.
std::string Agreement::why_absent(int rank, const Meeting& meeting) {
  if (has_left(*store_, rank)) {
    return "but ended";
  }
  if (meeting.called.empty()) {
    return {};
  }
  const auto notes = answered_notes(*store_, rank);
  const auto later = notes ? later_call(*notes, meeting.called) : std::nullopt;
  if (later) {
    return "but went on to " + *later;
  }
  ask_for_notes(*store_, rank);
  return {};
}

/// Waits until each of the first `keys.size()` members of the group has set its
/// key.
void Agreement::wait(
    const std::vector<std::string>& keys,
    const Meeting& meeting) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds patience{200};
  const auto deadline = Clock::now() + meeting.timeout;
  for (;;) {
    group_.core_->job->watchdog->throw_if_failed();
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - Clock::now());
    if (store_->wait(keys, std::clamp(left, {}, patience))) {
      return;
    }
    std::vector<int> missing;
    std::string why;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (store_->get(keys[i])) {
        continue;
      }
      const int rank = group_.global_ranks()[i];
      const std::string reason = why_absent(rank, meeting);
      if (!reason.empty() && store_->get(keys[i])) {
        continue; // it came, and only then went on to the later call
      }
      missing.push_back(rank);
      why = why.empty() ? reason : why;
    }
    if (missing.empty()) {
      return;
    }
    if (left <= patience && why.empty()) {
      why = fmt::format(
          "not within {:.1f} s",
          std::chrono::duration<double>(meeting.timeout).count());
    }
    if (why.empty()) {
      continue;
    }
    throw CommError(
        {.what = fmt::format(
             "{} did not come to {}, {}",
             name_ranks(missing),
             meeting.what,
             why),
         .where = fmt::format("group \"{}\"", group_.name()),
         .remedy = fmt::format(
             "all {} ranks of the group must take part",
             group_.size())});
  }
}

std::string Agreement::operator()(
    const std::string& what,
    const std::string& text,
    const Decide& decide,
    std::chrono::milliseconds timeout,
    const std::vector<ProcessGroup>& in_order_with) {
  if (!store_) {
    return decide({text});
  }
  Meeting meeting{.what = what, .timeout = timeout};
  for (const ProcessGroup& group : in_order_with) {
    detail::GroupCore& core = *group.core_;
    const std::lock_guard lock(core.mutex);
    meeting.called[core.key] = core.sequence;
  }
  const auto place = [&](std::uint64_t number, int rank) {
    return fmt::format("{}/{}/{}", place_, number, rank);
  };
  const std::uint64_t number = meetings_++;
  const std::string answer_place = place(number, -1);
  store_->set(place(number, group_.rank()), text);
  if (group_.rank() != 0) {
    wait({answer_place}, meeting);
    const std::string answer = store_->get(answer_place).value_or("");
    if (answer.empty() || answer.front() != answered) {
      throw CommError(
          {.what = fmt::format(
               "{} failed on rank {}",
               what,
               group_.global_ranks()[0]),
           .values = answer.empty() ? "" : answer.substr(1)});
    }
    return answer.substr(1);
  }
  try {
    std::vector<std::string> keys;
    for (int rank = 0; rank < group_.size(); ++rank) {
      keys.push_back(place(number, rank));
    }
    wait(keys, meeting);
    std::vector<std::string> texts;
    for (const std::string& key : keys) {
      texts.push_back(store_->get(key).value_or(""));
      store_->erase(key);
    }
    const std::string answer = decide(texts);
    store_->set(answer_place, answered + answer);
    if (number > 0) {
      // Every rank came to this meeting, so each has read the answer before.
      store_->erase(place(number - 1, -1));
    }
    return answer;
  } catch (const std::exception& error) {
    store_->set(answer_place, threw + std::string(error.what()));
    throw;
  }
}

} // namespace cairn::distributed
