#include "distributed/watch/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace cairn::distributed {
namespace {

std::string seconds_since(CollectiveRecord::Clock::time_point time) {
  using Seconds = std::chrono::duration<double>;
  const double seconds = Seconds(CollectiveRecord::Clock::now() - time).count();
  return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 1 : 0);
}

/// The call's name, and what it gathers if that has a name.
std::string full_name_of(const CollectiveRecord& record) {
  return record.operation == "all_gather" && !record.detail.empty()
      ? fmt::format("{} ({})", name_of(record), record.detail)
      : name_of(record);
}

std::string list_ranks(const std::vector<int>& ranks) {
  return fmt::format(
      "rank{} {}",
      ranks.size() == 1 ? "" : "s",
      fmt::join(ranks, ", "));
}

/// True when `theirs`, found in the notes of another rank, answers `mine`,
/// which `owner` called.
bool answers(
    const CollectiveRecord& theirs,
    const CollectiveRecord& mine,
    int owner) {
  if (theirs.group_key != mine.group_key || theirs.sequence != mine.sequence) {
    return false;
  }
  if (mine.peer) {
    const char* awaited = mine.operation == "send" ? "recv" : "send";
    return theirs.operation == awaited && theirs.peer == owner;
  }
  return !theirs.peer;
}

const CollectiveRecord* find_answer(
    const Notes& notes,
    const CollectiveRecord& mine,
    int owner) {
  for (const CollectiveRecord& theirs : notes.records) {
    if (answers(theirs, mine, owner)) {
      return &theirs;
    }
  }
  return nullptr;
}

/// True when the rank has passed the call `mine`. The ring forgets: a rank that
/// is far ahead no longer has the record itself.
bool is_ahead(const Notes& notes, const CollectiveRecord& mine) {
  const auto reached = notes.reached.find(mine.group_key);
  return !mine.peer && reached != notes.reached.end() &&
      reached->second >= mine.sequence;
}

/// True when two records fit together: a send fits a recv of as many elements
/// of the same type.
bool agree(const CollectiveRecord& a, const CollectiveRecord& b) {
  if (a.peer) {
    return a.sizes == b.sizes && a.dtype == b.dtype;
  }
  const bool sizes = a.sizes_vary || b.sizes_vary || a.sizes == b.sizes;
  return a.operation == b.operation && a.detail == b.detail &&
      a.dtype == b.dtype && a.sizes_vary == b.sizes_vary && sizes;
}

std::string last_call(const Notes& notes) {
  if (notes.records.empty()) {
    return "it has made no collective call yet";
  }
  const CollectiveRecord& last = notes.records.back();
  const std::string call =
      fmt::format("{} at {}", full_name_of(last), last.site);
  if (last.pending()) {
    return fmt::format(
        "it has been waiting in {} for {}",
        call,
        seconds_since(last.called));
  }
  return fmt::format(
      "its last call was {}, {} {} ago",
      call,
      last.state == CollectiveState::failed ? "failed" : "finished",
      seconds_since(last.ended));
}

/// Follows the ranks that wait for each other, from the collective that raised
/// the alarm.
class Inquiry {
 public:
  explicit Inquiry(const std::map<int, Notes>& notes) : notes_(notes) {}

  /// Why the collective is stuck; empty when every member is where it should
  /// be.
  std::string explain(
      const CollectiveRecord& record,
      int owner,
      const std::vector<int>& members) {
    if (!seen_.insert(key(record)).second) {
      return "";
    }
    std::string text = disagreement(record, owner, members);
    return text.empty() ? absence(record, owner, members) : text;
  }

 private:
  using Key = std::tuple<std::string, std::uint64_t, int, std::string>;

  static Key key(const CollectiveRecord& record) {
    return {
        record.group_key,
        record.sequence,
        record.peer.value_or(-1),
        record.peer ? record.operation : ""};
  }

  std::string disagreement(
      const CollectiveRecord& record,
      int owner,
      const std::vector<int>& members) const {
    std::vector<std::pair<int, CollectiveRecord>> calls = {{owner, record}};
    for (const int rank : members) {
      const auto found = notes_.find(rank);
      if (rank != owner && found != notes_.end()) {
        if (const auto* answer = find_answer(found->second, record, owner)) {
          calls.emplace_back(rank, *answer);
        }
      }
    }
    // The majority is presumed right; of equal numbers, the side of the lowest
    // rank.
    std::sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) {
      return a.first < b.first;
    });
    const auto support = [&](const auto& call) {
      return std::count_if(calls.begin(), calls.end(), [&](const auto& other) {
        return agree(call.second, other.second);
      });
    };
    const auto norm = std::max_element(
        calls.begin(),
        calls.end(),
        [&](const auto& a, const auto& b) { return support(a) < support(b); });
    for (const auto& [rank, call] : calls) {
      if (!agree(call, norm->second)) {
        return fmt::format(
            "rank {} called {} at {} as #{} of group \"{}\", where rank {} "
            "called {} at {}",
            rank,
            signature_of(call),
            call.site,
            call.sequence,
            call.group,
            norm->first,
            signature_of(norm->second),
            norm->second.site);
      }
    }
    return "";
  }

  std::string absence(
      const CollectiveRecord& record,
      int owner,
      const std::vector<int>& members) {
    std::vector<int> late;
    for (const int rank : members) {
      const auto found = notes_.find(rank);
      if (rank != owner && found != notes_.end() &&
          !find_answer(found->second, record, owner) &&
          !is_ahead(found->second, record)) {
        late.push_back(rank);
      }
    }
    if (late.empty()) {
      return "";
    }
    const Notes& first = notes_.at(late.front());
    const std::string call = record.peer
        ? fmt::format("the other end of {}", name_of(record))
        : full_name_of(record);
    std::string text = fmt::format(
        "{} {} not reached {} (called by rank {} at {}); ",
        list_ranks(late),
        late.size() == 1 ? "has" : "have",
        call,
        owner,
        record.site);
    if (late.size() > 1) {
      text += fmt::format("of rank {}: ", late.front());
    }
    if (first.left) {
      text += "it has left the job: its program ended; ";
    }
    text += last_call(first);
    return text + reason(first);
  }

  /// The reason why a late rank is late, if it waits for yet another one.
  std::string reason(const Notes& late) {
    for (const CollectiveRecord& record : late.records) {
      const auto group = late.groups.find(record.group_key);
      if (record.pending() && group != late.groups.end()) {
        const std::vector<int> members =
            record.peer ? std::vector<int>{*record.peer} : group->second;
        const std::string deeper = explain(record, late.rank, members);
        return deeper.empty() ? "" : "; there, " + deeper;
      }
    }
    return "";
  }

  const std::map<int, Notes>& notes_;
  std::set<Key> seen_;
};

std::string trouble(const Alarm& alarm) {
  if (!alarm.library_error.empty()) {
    return fmt::format(
        "{} of rank {} at {} failed: {}",
        full_name_of(alarm.record),
        alarm.rank,
        alarm.record.site,
        alarm.library_error);
  }
  return fmt::format(
      "{}, called by rank {} at {}, did not finish in {:.1f} s",
      full_name_of(alarm.record),
      alarm.rank,
      alarm.record.site,
      alarm.waited_seconds);
}

} // namespace

std::string diagnose(
    const Alarm& alarm,
    const std::map<int, Notes>& notes,
    int world_size) {
  if (!alarm.own_error.empty()) {
    return fmt::format("rank {} has failed: {}", alarm.rank, alarm.own_error);
  }
  std::vector<int> silent;
  for (int rank = 0; rank < world_size; ++rank) {
    if (!notes.contains(rank)) {
      silent.push_back(rank);
    }
  }
  if (!silent.empty()) {
    return fmt::format(
        "{} {} not answer (dead, stopped or cut off); {}",
        list_ranks(silent),
        silent.size() == 1 ? "does" : "do",
        trouble(alarm));
  }
  const std::vector<int> expected =
      alarm.record.peer ? std::vector<int>{*alarm.record.peer} : alarm.members;
  const std::string text =
      Inquiry(notes).explain(alarm.record, alarm.rank, expected);
  if (text.empty() && !alarm.library_error.empty()) {
    return trouble(alarm);
  }
  if (text.empty()) {
    return fmt::format(
        "every rank answers and has made the same call, yet {}; the network "
        "between them is the suspect",
        trouble(alarm));
  }
  return alarm.library_error.empty()
      ? text
      : fmt::format("{}; {}", text, trouble(alarm));
}

} // namespace cairn::distributed
