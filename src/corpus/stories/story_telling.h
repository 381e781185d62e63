#pragma once

#include "corpus/stories/story_words.h"
#include "corpus/stories/story_world.h"

namespace cairn::corpus {

/// Tells a story sentence by sentence. `Teller` is either StoryWriter, which
/// writes the sentences with random wordings, or StoryMeter, which adds up
/// their averages:
///
///   say(text)           fixed text
///   pick(list)          one of the list, at random
///   either(a, f, b, g)  f() or g(), with weights a and b
///   name, pronoun, trade(person); preposition, place(place);
///   object, quality(object)
///
/// Each text has only one derivation: two different choices never give the same
/// words (tests parse stories back to make sure).
template <typename Teller>
class StoryTelling {
 public:
  explicit StoryTelling(Teller& teller) : t_(teller) {}

  void opening(const StoryState& state) {
    t_.pick(w_.times);
    t_.say(", ");
    for (int person = 0; person < story_people; ++person) {
      t_.say(person == 0 ? "" : person + 1 < story_people ? ", " : " and ");
      t_.name(person);
      t_.say(" the ");
      t_.trade(person);
    }
    t_.say(" lived in a ");
    t_.pick(w_.settlement_qualities);
    t_.say(" ");
    t_.pick(w_.settlements);
    t_.say(" with a ");
    for (int place = 0; place < story_places; ++place) {
      t_.say(place == 0 ? "" : place + 1 < story_places ? ", a " : " and a ");
      t_.place(place);
    }
    t_.say(". That day ");
    for (int person = 0; person < story_people; ++person) {
      t_.say(person == 0 ? "" : person + 1 < story_people ? ", " : " and ");
      t_.name(person);
      t_.say(" was ");
      whereabouts(state.place[static_cast<std::size_t>(person)]);
    }
    t_.say(".");
    for (int object = 0; object < story_objects; ++object) {
      const int owner = state.owner[static_cast<std::size_t>(object)];
      if (owner < story_places) {
        t_.say(" There was a ");
      } else {
        t_.say(" ");
        t_.name(owner - story_places);
        t_.say(" had a ");
      }
      t_.quality(object);
      t_.say(" ");
      t_.object(object);
      if (owner < story_places) {
        t_.say(" ");
        whereabouts(owner);
      }
      t_.say(".");
    }
    t_.say("\n");
  }

  void event(const StoryState& state, const StoryEvent& event) {
    using Kind = StoryEvent::Kind;
    if (event.actor == state.last_subject) {
      t_.pronoun(event.actor);
    } else {
      t_.either(
          4,
          [&] { t_.name(event.actor); },
          1,
          [&] {
            t_.say("The ");
            t_.trade(event.actor);
          });
    }
    t_.say(" ");
    switch (event.kind) {
      case Kind::rest:
        t_.pick(w_.pastimes);
        break;
      case Kind::go:
        t_.pick(w_.walks);
        t_.say(" to the ");
        t_.place(event.place);
        with_what_is_held(state, event.actor);
        break;
      case Kind::take:
        t_.pick(w_.takes);
        the_object(event.object);
        break;
      case Kind::drop:
        t_.pick(w_.drops);
        the_object(event.object);
        t_.say(" ");
        whereabouts(state.place[static_cast<std::size_t>(event.actor)]);
        break;
      case Kind::give:
        t_.pick(w_.gives);
        the_object(event.object);
        t_.say(" to ");
        person(event.other);
        break;
      case Kind::talk:
        t_.pick(w_.talks);
        t_.say(" ");
        person(event.other);
        t_.say(" about ");
        t_.pick(w_.topics);
        break;
      case Kind::ask:
        question(state, event);
        break;
    }
    t_.say(".");
  }

  void closing(const StoryState& state, int object) {
    t_.say("\n");
    t_.pick(w_.evenings);
    const int owner = state.owner[static_cast<std::size_t>(object)];
    if (owner < story_places) {
      t_.say(",");
      the_object(object);
      t_.say(" was still ");
      whereabouts(owner);
    } else {
      t_.say(", ");
      t_.name(owner - story_places);
      t_.say(" still had");
      the_object(object);
    }
    t_.say(", and ");
    t_.pick(w_.farewells);
    t_.say(".");
  }

 private:
  void person(int person) {
    t_.either(
        4,
        [&] { t_.name(person); },
        1,
        [&] {
          t_.say("the ");
          t_.trade(person);
        });
  }

  void the_object(int object) {
    t_.either(
        2,
        [&] { t_.say(" the "); },
        1,
        [&] {
          t_.say(" the ");
          t_.quality(object);
          t_.say(" ");
        });
    t_.object(object);
  }

  void whereabouts(int place) {
    t_.preposition(place);
    t_.say(" the ");
    t_.place(place);
  }

  void with_what_is_held(const StoryState& state, int person) {
    bool first = true;
    for (int object = 0; object < story_objects; ++object) {
      if (state.holds(person, object)) {
        t_.say(first ? " with" : " and");
        the_object(object);
        first = false;
      }
    }
  }

  /// Tells a question and its answer. The answer is always true: a reader who
  /// has followed the story knows it.
  void question(const StoryState& state, const StoryEvent& event) {
    t_.say("asked ");
    person(event.other);
    t_.say(" about");
    the_object(event.object);
    t_.say(". \"");
    const int owner = state.owner[static_cast<std::size_t>(event.object)];
    if (owner < story_places) {
      t_.say("It is ");
      whereabouts(owner);
    } else if (owner == story_places + event.other) {
      t_.say("I have it");
    } else {
      t_.name(owner - story_places);
      t_.say(" has it");
    }
    t_.say(",\" said ");
    t_.name(event.other);
  }

  Teller& t_;
  const StoryWords& w_ = story_words();
};

/// Range of the number of events in a story; all numbers are equally likely.
inline constexpr int fewest_events = 8;
inline constexpr int most_events = 20;

} // namespace cairn::corpus
