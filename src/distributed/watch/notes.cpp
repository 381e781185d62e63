#include "distributed/watch/notes.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

namespace cairn::distributed {
namespace {

using nlohmann::json;
using Clock = CollectiveRecord::Clock;

std::int64_t age_ms(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             Clock::now() - time)
      .count();
}

Clock::time_point time_of(const json& value) {
  // The age is bounded, so that a strange number cannot overflow the clock.
  constexpr std::int64_t century = 100LL * 365 * 24 * 3600 * 1000;
  const auto age = value.get<std::int64_t>();
  return Clock::now() -
      std::chrono::milliseconds(std::clamp<std::int64_t>(age, 0, century));
}

json to_json(const CollectiveRecord& record) {
  return {
      {"id", record.id},
      {"sequence", record.sequence},
      {"operation", record.operation},
      {"detail", record.detail},
      {"group", record.group},
      {"group_key", record.group_key},
      {"peer", record.peer.value_or(-1)},
      {"sizes", record.sizes},
      {"sizes_vary", record.sizes_vary},
      {"dtype", record.dtype},
      {"site", record.site},
      {"state", static_cast<int>(record.state)},
      {"called", age_ms(record.called)},
      {"ended", age_ms(record.ended)}};
}

CollectiveRecord record_from(const json& value) {
  CollectiveRecord record;
  record.id = value.at("id").get<std::uint64_t>();
  record.sequence = value.at("sequence").get<std::uint64_t>();
  record.operation = value.at("operation").get<std::string>();
  record.detail = value.at("detail").get<std::string>();
  record.group = value.at("group").get<std::string>();
  record.group_key = value.at("group_key").get<std::string>();
  if (const int peer = value.at("peer").get<int>(); peer >= 0) {
    record.peer = peer;
  }
  record.sizes = value.at("sizes").get<std::vector<std::int64_t>>();
  record.sizes_vary = value.at("sizes_vary").get<bool>();
  record.dtype = value.at("dtype").get<std::string>();
  record.site = value.at("site").get<std::string>();
  const int state = value.at("state").get<int>();
  record.state = static_cast<CollectiveState>(
      std::clamp(state, 0, static_cast<int>(CollectiveState::failed)));
  record.called = time_of(value.at("called"));
  record.ended = time_of(value.at("ended"));
  return record;
}

std::string dump(const json& value) {
  // A file name need not be UTF-8; a note must be written all the same.
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

template <typename T, typename Read>
std::optional<T> parse(std::string_view text, Read read) {
  const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    return read(value);
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

} // namespace

std::string to_text(const Notes& notes) {
  json records = json::array();
  for (const CollectiveRecord& record : notes.records) {
    records.push_back(to_json(record));
  }
  return dump(
      {{"rank", notes.rank},
       {"left", notes.left},
       {"groups", notes.groups},
       {"reached", notes.reached},
       {"records", records}});
}

std::optional<Notes> notes_from_text(std::string_view text) {
  return parse<Notes>(text, [](const json& value) {
    Notes notes;
    notes.rank = value.at("rank").get<int>();
    notes.left = value.at("left").get<bool>();
    notes.groups =
        value.at("groups").get<std::map<std::string, std::vector<int>>>();
    notes.reached =
        value.at("reached").get<std::map<std::string, std::uint64_t>>();
    for (const json& record : value.at("records")) {
      notes.records.push_back(record_from(record));
    }
    return notes;
  });
}

std::string to_text(const Alarm& alarm) {
  return dump(
      {{"rank", alarm.rank},
       {"record", to_json(alarm.record)},
       {"members", alarm.members},
       {"library_error", alarm.library_error},
       {"waited_seconds", alarm.waited_seconds},
       {"own_error", alarm.own_error}});
}

std::optional<Alarm> alarm_from_text(std::string_view text) {
  return parse<Alarm>(text, [](const json& value) {
    Alarm alarm;
    alarm.rank = value.at("rank").get<int>();
    alarm.record = record_from(value.at("record"));
    alarm.members = value.at("members").get<std::vector<int>>();
    alarm.library_error = value.at("library_error").get<std::string>();
    alarm.waited_seconds = value.at("waited_seconds").get<double>();
    alarm.own_error = value.at("own_error").get<std::string>();
    return alarm;
  });
}

} // namespace cairn::distributed
