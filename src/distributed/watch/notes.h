#pragma once

#include "distributed/watch/flight_recorder.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::distributed {

/// The facts that a rank tells the others when a collective is in trouble.
struct Notes {
  int rank = 0;
  bool left = false; ///< its program ended in good order
  std::map<std::string, std::vector<int>> groups; ///< members by group key
  /// Number of the last collective it called on each group.
  std::map<std::string, std::uint64_t> reached;
  std::vector<CollectiveRecord> records; ///< oldest first
};

/// The collective that made a rank raise the alarm.
struct Alarm {
  int rank = 0; ///< the rank that raised it
  CollectiveRecord record;
  std::vector<int> members;  ///< ranks of the record's group
  std::string library_error; ///< empty: the collective did not finish in time
  double waited_seconds = 0;
  /// The error with which the rank ends by itself; empty: the record is in
  /// trouble.
  std::string own_error{};
};

/// Writes notes as text. Clocks of two machines cannot be compared, so times
/// travel as ages.
std::string to_text(const Notes& notes);
std::string to_text(const Alarm& alarm);
/// Reads notes; nullopt for anything that to_text() did not write.
std::optional<Notes> notes_from_text(std::string_view text);
std::optional<Alarm> alarm_from_text(std::string_view text);

} // namespace cairn::distributed
