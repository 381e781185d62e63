#include "corpus/internal/story_corpus.h"
#include "base/internal/stable_hash.h"
#include "corpus/stories/story_writer.h"
#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace cairn::corpus::story_corpus_test {
namespace {

using ::testing::HasSubstr;

double bits_of(std::span<const std::uint32_t> weights, std::size_t chosen) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  return std::log2(total / weights[chosen]);
}

/// Chooses by a generator unrelated to ours and adds up the surprise.
class SampledChoices : public Choices {
 public:
  explicit SampledChoices(std::uint32_t seed) : random_(seed) {}
  std::size_t choose(std::span<const std::uint32_t> weights) override {
    std::discrete_distribution<std::size_t> pick(
        weights.begin(),
        weights.end());
    const std::size_t chosen = pick(random_);
    script_.push_back(chosen);
    bits_ += bits_of(weights, chosen);
    return chosen;
  }
  double bits() const { return bits_; }
  const std::vector<std::size_t>& script() const { return script_; }

 private:
  std::mt19937 random_;
  double bits_ = 0;
  std::vector<std::size_t> script_;
};

/// Follows a script, and leaves the story at the script's end.
class ScriptedChoices : public Choices {
 public:
  struct EndOfScript {
    std::vector<std::size_t> options;
  };
  explicit ScriptedChoices(const std::vector<std::size_t>& script)
      : script_(script) {}
  std::size_t choose(std::span<const std::uint32_t> weights) override {
    if (next_ < script_.size()) {
      return script_[next_++];
    }
    EndOfScript end;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] > 0) {
        end.options.push_back(i);
      }
    }
    throw end;
  }

 private:
  const std::vector<std::size_t>& script_;
  std::size_t next_ = 0;
};

/// Parses by generation: finds every script that begins with the given one and
/// writes exactly `text`.
void find_derivations(
    const std::string& text,
    std::vector<std::size_t>& script,
    std::vector<std::vector<std::size_t>>& found) {
  std::string out;
  ScriptedChoices choices(script);
  try {
    write_story(choices, out);
    if (out == text) {
      found.push_back(script);
    }
  } catch (const ScriptedChoices::EndOfScript& end) {
    if (!text.starts_with(out)) {
      return;
    }
    for (const std::size_t option : end.options) {
      script.push_back(option);
      find_derivations(text, script, found);
      script.pop_back();
    }
  }
}

TEST(StoryCorpus, EntropyIsThatOfALargeSample) {
  const StoryEntropy exact = story_entropy();
  constexpr int samples = 20000;
  double bits = 0;
  double squares = 0;
  double words = 0;
  double characters = 0;
  for (int i = 0; i < samples; ++i) {
    SampledChoices choices(static_cast<std::uint32_t>(i));
    std::string text;
    write_story(choices, text);
    bits += choices.bits();
    squares += choices.bits() * choices.bits();
    characters += static_cast<double>(text.size());
    words += 1 +
        static_cast<double>(std::count_if(text.begin(), text.end(), [](char c) {
               return c == ' ' || c == '\n';
             }));
  }
  const double mean = bits / samples;
  const double error = std::sqrt((squares / samples - mean * mean) / samples);
  EXPECT_LT(error / mean, 0.002);
  EXPECT_NEAR(mean, exact.bits_per_document, 4 * error);
  // Lengths vary a quarter of their mean at most.
  const double tolerance = 4 * 0.25 / std::sqrt(samples);
  EXPECT_NEAR(words / samples / exact.words_per_document, 1, tolerance);
  EXPECT_NEAR(
      characters / samples / exact.characters_per_document,
      1,
      tolerance);
}

TEST(StoryCorpus, TextHasOneDerivationOnly) {
  // The opening names every person, trade, place and object, and where things
  // are at the start. It is taken as read (the next test looks at it), and
  // everything after it is found again from the text.
  constexpr std::size_t opening =
      3 * story_people + 3 * story_objects + story_places;
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    SampledChoices choices(seed);
    std::string text;
    write_story(choices, text);
    std::vector<std::size_t> script(
        choices.script().begin(),
        choices.script().begin() + static_cast<std::ptrdiff_t>(opening));
    std::vector<std::vector<std::size_t>> found;
    find_derivations(text, script, found);
    ASSERT_EQ(found.size(), 1U) << text;
    EXPECT_EQ(found.front(), choices.script());
  }
}

TEST(StoryCorpus, WordsOfAListAreDistinct) {
  const StoryWords& words = story_words();
  const auto expect_distinct = [](const PhraseList& list) {
    std::set<std::string_view> seen;
    for (std::size_t i = 0; i < list.size(); ++i) {
      EXPECT_TRUE(seen.insert(list.text(i)).second) << list.text(i);
      EXPECT_GT(list.weights()[i], 0U);
      EXPECT_EQ(list.text(i).find("  "), std::string_view::npos);
    }
  };
  expect_distinct(words.names);
  expect_distinct(words.trades);
  expect_distinct(words.places);
  expect_distinct(words.objects);
  expect_distinct(words.qualities);
  expect_distinct(words.times);
  EXPECT_EQ(words.names.size(), words.pronouns.size());
  EXPECT_EQ(words.places.size(), words.prepositions.size());
}

TEST(StoryCorpus, StateAndIndexAreOneToOne) {
  for (std::size_t i = 0; i < StoryState::count; ++i) {
    ASSERT_EQ(StoryState::at(i).index(), i);
  }
}

TEST(StoryCorpus, AStoryIsKnownByItsSeedAndNumber) {
  // A change of these values changes everybody's sample corpus.
  EXPECT_EQ(stable_hash(story(1234, 0)), 0xfe2c357629f98255U);
  EXPECT_NE(story(1234, 0), story(1234, 1));
  EXPECT_NE(story(1234, 0), story(1235, 0));
  EXPECT_EQ(stable_hash(story(99, 1000000)), 0x22d4e2292922c216U);
}

TEST(StoryCorpus, SameBytesForAnyNumberOfWorkers) {
  const testing::TemporaryFolder folder;
  std::string first;
  for (const std::size_t workers : {1, 2, 5}) {
    const auto file = folder / ("w" + std::to_string(workers));
    const auto report = write_story_corpus(
        {.output = file, .bytes = 1'000'000, .workers = workers});
    const std::string bytes = testing::read_text(file);
    EXPECT_EQ(bytes.size(), report.bytes);
    EXPECT_GE(bytes.size(), 1'000'000U);
    EXPECT_LT(bytes.size(), 1'003'000U);
    if (first.empty()) {
      first = bytes;
    }
    EXPECT_TRUE(bytes == first) << workers << " workers";
  }
}

TEST(StoryCorpus, TextFormatPartsStoriesByAnEmptyLine) {
  const testing::TemporaryFolder folder;
  const auto file = folder / "stories.txt";
  write_story_corpus(
      {.output = file, .format = StoryFormat::text, .seed = 7, .documents = 3});
  EXPECT_EQ(
      testing::read_text(file),
      story(7, 0) + "\n\n" + story(7, 1) + "\n\n" + story(7, 2) + "\n");
}

const std::string cairn = CAIRN_BINARY_DIR "/bin/cairn";

TEST(SampleCorpusCommand, WritesAFileAndSaysTheEntropy) {
  const testing::TemporaryFolder folder;
  const std::string file = folder / "stories.jsonl";
  const auto result = testing::run(
      {cairn, "data", "sample-corpus", "--output", file, "--documents", "10"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("10 stories"));
  EXPECT_THAT(
      result.out,
      HasSubstr(std::to_string(story_entropy().bits_per_word()).substr(0, 5)));
  const std::string text = testing::read_text(file);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);
  EXPECT_THAT(text, ::testing::StartsWith("{\"id\": 0, \"text\": \""));
}

TEST(SampleCorpusCommand, StandardOutputHasNothingButTheCorpus) {
  const auto result = testing::run(
      {cairn, "data", "sample-corpus", "--documents", "2", "--format=text"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, story(1234, 0) + "\n\n" + story(1234, 1) + "\n");
  EXPECT_THAT(result.err, HasSubstr("per word"));
}

TEST(SampleCorpusCommand, RefusesWhatMakesNoSense) {
  const auto size =
      testing::run({cairn, "data", "sample-corpus", "--size", "12 apples"});
  EXPECT_EQ(size.code, 2);
  EXPECT_THAT(size.err, HasSubstr("--size: \"12 apples\" is no size"));
  for (const char* count : {"-1", "0"}) {
    const auto none =
        testing::run({cairn, "data", "sample-corpus", "--documents", count});
    EXPECT_EQ(none.code, 2) << count;
  }
  const auto both = testing::run(
      {cairn, "data", "sample-corpus", "--size", "1MB", "--documents", "3"});
  EXPECT_EQ(both.code, 2);
  const auto folder = testing::run(
      {cairn,
       "data",
       "sample-corpus",
       "--output",
       "/nonexistent/stories.jsonl"});
  EXPECT_EQ(folder.code, 1);
  EXPECT_THAT(folder.err, HasSubstr("/nonexistent"));
}

} // namespace
} // namespace cairn::corpus::story_corpus_test
