#include <cairn/distributed/agreement.h>

#include "group_core.h"
#include "handshake.h"
#include "store.h"
#include "watchdog.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::distributed {

namespace {

constexpr char answered = '+';
constexpr char threw = '-';

} // namespace

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

/// Until each of the first members of the group has set its key.
void Agreement::wait(
    const std::vector<std::string>& keys,
    const std::string& what,
    std::chrono::milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds patience{200};
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    group_.core_->job->watchdog->throw_if_failed();
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - Clock::now());
    if (store_->wait(keys, std::clamp(left, {}, patience))) {
      return;
    }
    std::vector<int> missing;
    bool left_the_job = false;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!store_->get(keys[i])) {
        missing.push_back(group_.global_ranks()[i]);
        left_the_job |= has_left(*store_, missing.back());
      }
    }
    if (missing.empty()) {
      return;
    }
    if (left > patience && !left_the_job) {
      continue;
    }
    throw CommError(
        {.what = fmt::format(
             "{} did not come to {}, {}",
             name_ranks(missing),
             what,
             left_the_job
                 ? "but ended"
                 : fmt::format(
                       "not within {:.1f} s",
                       std::chrono::duration<double>(timeout).count())),
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
    std::chrono::milliseconds timeout) {
  if (!store_) {
    return decide({text});
  }
  const auto place = [&](std::uint64_t meeting, int rank) {
    return fmt::format("{}/{}/{}", place_, meeting, rank);
  };
  const std::uint64_t meeting = meetings_++;
  const std::string answer_place = place(meeting, -1);
  store_->set(place(meeting, group_.rank()), text);
  if (group_.rank() != 0) {
    wait({answer_place}, what, timeout);
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
      keys.push_back(place(meeting, rank));
    }
    wait(keys, what, timeout);
    std::vector<std::string> texts;
    for (const std::string& key : keys) {
      texts.push_back(store_->get(key).value_or(""));
      store_->erase(key);
    }
    const std::string answer = decide(texts);
    store_->set(answer_place, answered + answer);
    if (meeting > 0) { // everyone came here, so has read the answer before
      store_->erase(place(meeting - 1, -1));
    }
    return answer;
  } catch (const std::exception& error) {
    store_->set(answer_place, threw + std::string(error.what()));
    throw;
  }
}

} // namespace cairn::distributed
