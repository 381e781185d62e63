#include "corpus/stories/story_writer.h"

#include <array>
#include <string_view>
#include <vector>

namespace cairn::corpus {
namespace {

template <std::size_t n>
using Draw = std::array<std::size_t, n>;

/// The people, places and things of a story, as indices into story_words().
struct Cast {
  Draw<story_people> names;
  Draw<story_people> trades;
  Draw<story_places> places;
  Draw<story_objects> objects;
  Draw<story_objects> qualities;
};

class StoryWriter {
 public:
  StoryWriter(Choices& choices, std::string& out)
      : choices_(choices), out_(out) {}

  void write() {
    cast_.names = distinct<story_people>(w_.names);
    cast_.trades = distinct<story_people>(w_.trades);
    cast_.places = distinct<story_places>(w_.places);
    cast_.objects = distinct<story_objects>(w_.objects);
    for (std::size_t& quality : cast_.qualities) {
      quality = choices_.choose(w_.qualities.weights());
    }
    StoryState state;
    for (int& place : state.place) {
      place = even(story_places);
    }
    for (int& owner : state.owner) {
      owner = even(story_owners);
    }
    StoryTelling telling(*this);
    telling.opening(state);
    const int events = fewest_events + even(most_events - fewest_events + 1);
    StoryEvents possible;
    for (int i = 0; i < events; ++i) {
      if (i > 0) {
        say(" ");
      }
      possible_events(state, possible);
      const StoryEvent& event =
          possible.events[choices_.choose(possible.weights)];
      telling.event(state, event);
      state = after(state, event);
    }
    telling.closing(state, even(story_objects));
  }

  void say(std::string_view text) { out_.append(text); }
  void pick(const PhraseList& list) {
    say(list.text(choices_.choose(list.weights())));
  }
  void either(
      std::uint32_t first_weight,
      auto first,
      std::uint32_t second_weight,
      auto second) {
    const std::uint32_t weights[]{first_weight, second_weight};
    if (choices_.choose(weights) == 0) {
      first();
    } else {
      second();
    }
  }
  void name(int person) { of(w_.names, cast_.names, person); }
  void pronoun(int person) { of(w_.pronouns, cast_.names, person); }
  void trade(int person) { of(w_.trades, cast_.trades, person); }
  void place(int place) { of(w_.places, cast_.places, place); }
  void preposition(int place) { of(w_.prepositions, cast_.places, place); }
  void object(int object) { of(w_.objects, cast_.objects, object); }
  void quality(int object) { of(w_.qualities, cast_.qualities, object); }

 private:
  template <std::size_t n>
  void of(const PhraseList& list, const Draw<n>& draw, int slot) {
    say(list.text(draw[static_cast<std::size_t>(slot)]));
  }

  template <std::size_t n>
  Draw<n> distinct(const PhraseList& list) {
    Draw<n> draw;
    std::vector<std::uint32_t> weights(
        list.weights().begin(),
        list.weights().end());
    for (std::size_t& index : draw) {
      index = choices_.choose(weights);
      weights[index] = 0;
    }
    return draw;
  }

  int even(int count) {
    static constexpr std::array<std::uint32_t, 16>
        ones{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    static_assert(most_events - fewest_events + 1 <= ones.size());
    return static_cast<int>(choices_.choose(
        std::span(ones).first(static_cast<std::size_t>(count))));
  }

  Choices& choices_;
  std::string& out_;
  const StoryWords& w_ = story_words();
  Cast cast_{};
};

} // namespace

void write_story(Choices& choices, std::string& out) {
  StoryWriter(choices, out).write();
}

} // namespace cairn::corpus
