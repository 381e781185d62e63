#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::corpus {

inline constexpr int story_people = 3;
inline constexpr int story_places = 3;
inline constexpr int story_objects = 3;
/// The values of an object's owner: a place, [0, 3), or a person, 3 + [0, 3).
inline constexpr int story_owners = story_places + story_people;
inline constexpr int nobody = story_people;

/// Everything about a story that the next sentence depends on, names aside.
struct StoryState {
  std::array<int, story_people> place{};
  std::array<int, story_objects> owner{};
  int last_subject = nobody; ///< the person a pronoun would mean

  static constexpr std::size_t count = 27 * 216 * (story_people + 1);
  /// A number in [0, count) that identifies the state.
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

/// Events that can happen in a state, with their relative weights.
struct StoryEvents {
  std::vector<StoryEvent> events;
  std::vector<std::uint32_t> weights;
};

/// Fills `out` and reuses its memory.
void possible_events(const StoryState& state, StoryEvents& out);

StoryState after(StoryState state, const StoryEvent& event);

} // namespace cairn::corpus
