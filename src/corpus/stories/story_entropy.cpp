#include "corpus/internal/story_corpus.h"
#include "corpus/stories/story_telling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::corpus {
namespace {

/// Expected length of the text in each slot when `slots` entries of `drawn` are
/// drawn without replacement; computed by enumerating all draws. `shown` is the
/// parallel list whose text is shown.
template <std::size_t slots>
struct DistinctDraw {
  double bits = 0;
  std::array<double, slots> characters{};

  DistinctDraw(const PhraseList& drawn, const PhraseList& shown) {
    std::vector<std::uint32_t> weights(
        drawn.weights().begin(),
        drawn.weights().end());
    const std::function<void(std::size_t, double)> visit =
        [&](std::size_t slot, double probability) {
          if (slot == slots) {
            return;
          }
          bits += probability * entropy_of(weights);
          double total = 0;
          for (const std::uint32_t weight : weights) {
            total += weight;
          }
          for (std::size_t i = 0; i < weights.size(); ++i) {
            if (weights[i] == 0) {
              continue;
            }
            const double share = probability * weights[i] / total;
            characters[slot] +=
                share * static_cast<double>(shown.text(i).size());
            const std::uint32_t weight = std::exchange(weights[i], 0);
            visit(slot + 1, share);
            weights[i] = weight;
          }
        };
    visit(0, 1);
  }
};

/// The words that the cast adds to a story wherever it is named. It is drawn
/// independently of the events, so expectations can be multiplied.
struct CastMeasure {
  const StoryWords& w = story_words();
  DistinctDraw<story_people> names{w.names, w.names};
  DistinctDraw<story_people> pronouns{w.names, w.pronouns};
  DistinctDraw<story_people> trades{w.trades, w.trades};
  DistinctDraw<story_places> places{w.places, w.places};
  DistinctDraw<story_places> prepositions{w.places, w.prepositions};
  DistinctDraw<story_objects> objects{w.objects, w.objects};

  double bits() const {
    return names.bits + trades.bits + places.bits + objects.bits +
        story_objects * w.qualities.measure().bits;
  }
};

class StoryMeter {
 public:
  explicit StoryMeter(const CastMeasure& cast) : cast_(cast) {}

  const TextMeasure& sum() const { return sum_; }

  void say(std::string_view text) {
    sum_.characters += scale_ * static_cast<double>(text.size());
    for (const char c : text) {
      sum_.spaces += c == ' ' || c == '\n' ? scale_ : 0;
    }
  }
  void pick(const PhraseList& list) {
    add_bits(list.measure().bits);
    sum_.characters += scale_ * list.measure().characters;
    sum_.spaces += scale_ * list.measure().spaces;
  }
  void either(
      std::uint32_t first_weight,
      auto first,
      std::uint32_t second_weight,
      auto second) {
    const std::uint32_t weights[]{first_weight, second_weight};
    add_bits(entropy_of(weights));
    const double total = first_weight + second_weight;
    scaled(first_weight / total, first);
    scaled(second_weight / total, second);
  }
  void name(int person) { of(cast_.names, person); }
  void pronoun(int person) { of(cast_.pronouns, person); }
  void trade(int person) { of(cast_.trades, person); }
  void place(int place) { of(cast_.places, place); }
  void preposition(int place) { of(cast_.prepositions, place); }
  void object(int object) { of(cast_.objects, object); }
  void quality(int) {
    sum_.characters += scale_ * cast_.w.qualities.measure().characters;
  }

  void add_bits(double bits) { sum_.bits += scale_ * bits; }
  void add(const TextMeasure& other, double share) {
    sum_.bits += share * other.bits;
    sum_.characters += share * other.characters;
    sum_.spaces += share * other.spaces;
  }
  /// Counts what `part` tells with the weight `share`.
  void scaled(double share, auto part) {
    const double whole = std::exchange(scale_, scale_ * share);
    part();
    scale_ = whole;
  }

 private:
  void of(const auto& draw, int slot) {
    sum_.characters += scale_ * draw.characters[static_cast<std::size_t>(slot)];
  }

  const CastMeasure& cast_;
  TextMeasure sum_;
  double scale_ = 1;
};

/// One state: the average of its next sentence, the average of a closing
/// sentence, and the states that follow.
struct Step {
  TextMeasure event;
  TextMeasure closing;
  std::vector<std::pair<std::size_t, double>> next;
};

Step step_from(const StoryState& state, const CastMeasure& cast) {
  Step step;
  StoryEvents possible;
  possible_events(state, possible);
  double total = 0;
  for (const std::uint32_t weight : possible.weights) {
    total += weight;
  }
  StoryMeter event(cast);
  event.add_bits(entropy_of(possible.weights));
  for (std::size_t i = 0; i < possible.events.size(); ++i) {
    const double share = possible.weights[i] / total;
    event.scaled(share, [&] {
      StoryTelling(event).event(state, possible.events[i]);
    });
    step.next.emplace_back(after(state, possible.events[i]).index(), share);
  }
  step.event = event.sum();

  StoryMeter closing(cast);
  closing.add_bits(std::log2(story_objects));
  for (int object = 0; object < story_objects; ++object) {
    closing.scaled(1.0 / story_objects, [&] {
      StoryTelling(closing).closing(state, object);
    });
  }
  step.closing = closing.sum();
  return step;
}

} // namespace

StoryEntropy story_entropy() {
  const CastMeasure cast;
  StoryMeter meter(cast);
  constexpr double lengths = most_events - fewest_events + 1;
  meter.add_bits(
      cast.bits() + story_people * std::log2(story_places) +
      story_objects * std::log2(story_owners) + std::log2(lengths));

  std::vector<double> now(StoryState::count); // probability of each state
  constexpr std::size_t starts = StoryState::count / (story_people + 1);
  std::vector<Step> steps(StoryState::count);
  for (std::size_t i = 0; i < StoryState::count; ++i) {
    const StoryState state = StoryState::at(i);
    steps[i] = step_from(state, cast);
    if (state.last_subject == nobody) {
      now[i] = 1.0 / starts;
      meter.scaled(now[i], [&] { StoryTelling(meter).opening(state); });
    }
  }

  std::vector<double> next(StoryState::count);
  for (int done = 0; done <= most_events; ++done) {
    const bool may_end = done >= fewest_events;
    const double ends = may_end ? 1 / lengths : 0;
    const double goes_on = may_end ? (most_events - done) / lengths : 1;
    std::fill(next.begin(), next.end(), 0);
    for (std::size_t i = 0; i < now.size(); ++i) {
      const double here = now[i];
      meter.add(steps[i].closing, here * ends);
      meter.add(steps[i].event, here * goes_on);
      for (const auto& [to, share] : steps[i].next) {
        next[to] += here * share;
      }
    }
    if (done > 0) {
      meter.scaled(goes_on, [&] { meter.say(" "); });
    }
    now.swap(next);
  }

  const TextMeasure& sum = meter.sum();
  return {
      .bits_per_document = sum.bits,
      .words_per_document = sum.spaces + 1,
      .characters_per_document = sum.characters};
}

} // namespace cairn::corpus
