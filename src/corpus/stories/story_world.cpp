#include "corpus/stories/story_world.h"

namespace cairn::corpus {
namespace {

int& at(auto& array, int index) {
  return array[static_cast<std::size_t>(index)];
}
int at(const auto& array, int index) {
  return array[static_cast<std::size_t>(index)];
}

} // namespace

std::size_t StoryState::index() const {
  std::size_t value = static_cast<std::size_t>(last_subject);
  for (const int each : place) {
    value = value * story_places + static_cast<std::size_t>(each);
  }
  for (const int each : owner) {
    value = value * story_owners + static_cast<std::size_t>(each);
  }
  return value;
}

StoryState StoryState::at(std::size_t index) {
  StoryState state;
  for (auto each = state.owner.rbegin(); each != state.owner.rend(); ++each) {
    *each = static_cast<int>(index % story_owners);
    index /= story_owners;
  }
  for (auto each = state.place.rbegin(); each != state.place.rend(); ++each) {
    *each = static_cast<int>(index % story_places);
    index /= story_places;
  }
  state.last_subject = static_cast<int>(index);
  return state;
}

void possible_events(const StoryState& state, StoryEvents& out) {
  using Kind = StoryEvent::Kind;
  out.events.clear();
  out.weights.clear();
  for (int actor = 0; actor < story_people; ++actor) {
    const int here = at(state.place, actor);
    // A story tends to stay with the person it spoke of last.
    const std::uint32_t interest = actor == state.last_subject ? 2 : 1;
    const auto add = [&](std::uint32_t weight, StoryEvent event) {
      event.actor = actor;
      out.events.push_back(event);
      out.weights.push_back(weight * interest);
    };
    add(4, {.kind = Kind::rest});
    for (int place = 0; place < story_places; ++place) {
      if (place != here) {
        add(4, {.kind = Kind::go, .place = place});
      }
    }
    for (int object = 0; object < story_objects; ++object) {
      if (at(state.owner, object) == here) {
        add(6, {.kind = Kind::take, .object = object});
      } else if (state.holds(actor, object)) {
        add(2, {.kind = Kind::drop, .object = object});
      }
    }
    for (int other = 0; other < story_people; ++other) {
      if (other == actor || at(state.place, other) != here) {
        continue;
      }
      add(3, {.kind = Kind::talk, .other = other});
      for (int object = 0; object < story_objects; ++object) {
        if (state.holds(actor, object)) {
          add(5, {.kind = Kind::give, .other = other, .object = object});
        } else {
          add(2, {.kind = Kind::ask, .other = other, .object = object});
        }
      }
    }
  }
}

StoryState after(StoryState state, const StoryEvent& event) {
  using Kind = StoryEvent::Kind;
  state.last_subject = event.actor;
  switch (event.kind) {
    case Kind::rest:
    case Kind::talk:
      break;
    case Kind::go:
      at(state.place, event.actor) = event.place;
      break;
    case Kind::take:
      at(state.owner, event.object) = story_places + event.actor;
      break;
    case Kind::drop:
      at(state.owner, event.object) = at(state.place, event.actor);
      break;
    case Kind::give:
      at(state.owner, event.object) = story_places + event.other;
      break;
    case Kind::ask: // the person who answers speaks last
      state.last_subject = event.other;
      break;
  }
  return state;
}

} // namespace cairn::corpus
