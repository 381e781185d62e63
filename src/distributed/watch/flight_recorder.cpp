#include "distributed/watch/flight_recorder.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::distributed {

std::string name_of(const CollectiveRecord& record) {
  if (record.peer) {
    return fmt::format(
        "{} #{} {} rank {} in group \"{}\"",
        record.operation,
        record.sequence,
        record.operation == "send" ? "to" : "from",
        *record.peer,
        record.group);
  }
  return fmt::format(
      "{} #{} of group \"{}\"",
      record.operation,
      record.sequence,
      record.group);
}

std::string signature_of(const CollectiveRecord& record) {
  // A coalesced call may carry thousands of tensors: show the first few.
  constexpr std::size_t shown = 4;
  std::string text = record.dtype;
  if (!record.sizes_vary && !record.sizes.empty()) {
    const std::size_t count = std::min(shown, record.sizes.size());
    text += fmt::format(
        " [{}{}]",
        fmt::join(record.sizes.begin(), record.sizes.begin() + count, ", "),
        record.sizes.size() > shown
            ? fmt::format(", … {} tensors", record.sizes.size())
            : "");
  }
  if (!record.detail.empty()) {
    text += (text.empty() ? "" : ", ") + record.detail;
  }
  return fmt::format("{}({})", record.operation, text);
}

FlightRecorder::FlightRecorder(std::size_t capacity) : capacity_(capacity) {
  if (capacity == 0) {
    throw UsageError({.what = "a flight recorder must keep at least 1 call"});
  }
  ring_.reserve(capacity);
}

void FlightRecorder::add_group(const std::string& key, std::vector<int> ranks) {
  const std::lock_guard lock(mutex_);
  groups_[key] = std::move(ranks);
  had_groups_ = true;
}

void FlightRecorder::remove_group(const std::string& key) {
  const std::lock_guard lock(mutex_);
  groups_.erase(key);
}

CollectiveRecord FlightRecorder::schedule(CollectiveRecord record) {
  record.called = CollectiveRecord::Clock::now();
  record.state = CollectiveState::scheduled;
  const std::lock_guard lock(mutex_);
  record.id = next_id_++;
  if (!record.peer) {
    reached_[record.group_key] = record.sequence;
  }
  Traffic& moved = traffic_[record.group][record.operation];
  ++moved.calls;
  moved.bytes += record.bytes;
  const auto slot = static_cast<std::size_t>(record.id % capacity_);
  if (slot == ring_.size()) {
    ring_.push_back(record);
  } else {
    ring_[slot] = record;
  }
  return record;
}

CollectiveRecord* FlightRecorder::find(std::uint64_t id) {
  const auto slot = static_cast<std::size_t>(id % capacity_);
  const bool kept = slot < ring_.size() && ring_[slot].id == id;
  return kept ? &ring_[slot] : nullptr;
}

void FlightRecorder::running(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  CollectiveRecord* record = find(id);
  if (record && record->state == CollectiveState::scheduled) {
    record->state = CollectiveState::running;
  }
}

void FlightRecorder::ended(std::uint64_t id, CollectiveState state) {
  const std::lock_guard lock(mutex_);
  if (CollectiveRecord* record = find(id)) {
    record->state = state;
    record->ended = CollectiveRecord::Clock::now();
  }
}

std::vector<CollectiveRecord> FlightRecorder::records() const {
  const std::lock_guard lock(mutex_);
  std::vector<CollectiveRecord> result = ring_;
  std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) {
    return a.id < b.id;
  });
  return result;
}

bool FlightRecorder::has_no_group_left() const {
  const std::lock_guard lock(mutex_);
  return had_groups_ && groups_.empty();
}

std::map<std::string, std::vector<int>> FlightRecorder::groups() const {
  const std::lock_guard lock(mutex_);
  return groups_;
}

std::map<std::string, std::uint64_t> FlightRecorder::reached() const {
  const std::lock_guard lock(mutex_);
  return reached_;
}

std::vector<Traffic> FlightRecorder::traffic() const {
  const std::lock_guard lock(mutex_);
  std::vector<Traffic> result;
  for (const auto& [group, operations] : traffic_) {
    for (const auto& [operation, moved] : operations) {
      result.push_back({group, operation, moved.calls, moved.bytes});
    }
  }
  return result;
}

} // namespace cairn::distributed
