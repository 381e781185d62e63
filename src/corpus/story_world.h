#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::corpus {

inline constexpr int story_people = 3;
inline constexpr int story_places = 3;
inline constexpr int story_objects = 3;
/// An object is at a place, [0, 3), or with a person, 3 + [0, 3).
inline constexpr int story_owners = story_places + story_people;
inline constexpr int nobody = story_people;

/// Everything about a story that the next sentence depends on, names aside.
struct StoryState {
  std::array<int, story_people> place{};
  std::array<int, story_objects> owner{};
  int last_subject = nobody; ///< whom a pronoun would mean

  static constexpr std::size_t count = 27 * 216 * (story_people + 1);
  /// One to one with [0, count).
  std::size_t index() const;
  static StoryState at(std::size_t index);

  bool holds(int person, int object) const {
    return owner[static_cast<std::size_t>(object)] == story_places + person;
  }
};

struct StoryEvent {
  enum class Kind { rest, go, take, drop, give, talk, ask };
  Kind kind = Kind::rest;
  int actor = 0;
  int other = 0;  ///< give, talk, ask
  int object = 0; ///< take, drop, give, ask
  int place = 0;  ///< go
};

/// What can happen in a state, with how likely it is against the rest.
struct StoryEvents {
  std::vector<StoryEvent> events;
  std::vector<std::uint32_t> weights;
};

/// Fills `out`, whose memory is used again.
void possible_events(const StoryState& state, StoryEvents& out);

StoryState after(StoryState state, const StoryEvent& event);

} // namespace cairn::corpus
