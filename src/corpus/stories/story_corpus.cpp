#include "corpus/internal/story_corpus.h"

#include <cairn/base/counter_random.h>

#include "base/internal/thread_pool.h"
#include "corpus/internal/output_file.h"
#include "corpus/output/json_text.h"
#include "corpus/output/ordered_work.h"
#include "corpus/stories/story_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

namespace cairn::corpus {
namespace {

/// Random choices of one story. Every story has draws of its own, so that any
/// thread can write any story.
class RandomChoices : public Choices {
 public:
  RandomChoices(const CounterRandom& random, std::uint64_t document)
      : random_(random), next_(document * draws_per_story) {}

  std::size_t choose(std::span<const std::uint32_t> weights) override {
    const std::uint64_t total =
        std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
    std::uint64_t point = random_.below(total, next_++);
    std::size_t index = 0;
    while (point >= weights[index]) {
      point -= weights[index++];
    }
    return index;
  }

 private:
  static constexpr std::uint64_t draws_per_story = 1024;
  const CounterRandom& random_;
  std::uint64_t next_;
};

CounterRandom story_random(std::uint64_t seed) {
  return CounterRandom(seed, "stories");
}

/// Consecutive stories as they stand in the file, with the end of each.
struct Batch {
  std::string bytes;
  struct Story {
    std::size_t end;
    std::uint64_t words;
    std::uint64_t characters;
  };
  std::vector<Story> stories;
};

constexpr std::uint64_t stories_per_batch = 512;

} // namespace

std::string story(std::uint64_t seed, std::uint64_t document) {
  const CounterRandom random = story_random(seed);
  RandomChoices choices(random, document);
  std::string text;
  write_story(choices, text);
  return text;
}

StoryCorpusReport write_story_corpus(const StoryCorpusOptions& options) {
  const CounterRandom random = story_random(options.seed);
  OutputFile output(options.output);
  StoryCorpusReport report;

  std::uint64_t begun = 0;
  const auto next =
      [&]() -> std::optional<std::pair<std::uint64_t, std::uint64_t>> {
    const std::uint64_t end = options.documents
        ? std::min(begun + stories_per_batch, *options.documents)
        : begun + stories_per_batch;
    if (begun == end) {
      return std::nullopt;
    }
    return std::pair(std::exchange(begun, end), end);
  };
  const auto work = [&](std::pair<std::uint64_t, std::uint64_t> range) {
    Batch batch;
    std::string text;
    for (std::uint64_t document = range.first; document < range.second;
         ++document) {
      text.clear();
      RandomChoices choices(random, document);
      write_story(choices, text);
      if (options.format == StoryFormat::jsonl) {
        fmt::format_to(
            std::back_inserter(batch.bytes),
            "{{\"id\": {}, \"text\": ",
            document);
        append_json_string(batch.bytes, text);
        batch.bytes += "}\n";
      } else {
        batch.bytes += document == 0 ? "" : "\n";
        batch.bytes += text;
        batch.bytes += '\n';
      }
      const auto spaces = std::count_if(text.begin(), text.end(), [](char c) {
        return c == ' ' || c == '\n';
      });
      batch.stories.push_back(
          {batch.bytes.size(),
           static_cast<std::uint64_t>(spaces) + 1,
           text.size()});
    }
    return batch;
  };
  const auto take = [&](const Batch& batch) {
    std::size_t used = 0;
    const std::uint64_t before = report.documents;
    for (const auto& each : batch.stories) {
      if (!options.documents && report.bytes + used >= options.bytes) {
        break;
      }
      used = each.end;
      ++report.documents;
      report.words += each.words;
      report.characters += each.characters;
    }
    output.write(std::string_view(batch.bytes).substr(0, used));
    report.bytes += used;
    if (options.on_progress) {
      options.on_progress(options.documents ? report.documents - before : used);
    }
    return options.documents || report.bytes < options.bytes;
  };
  ThreadPool pool(options.workers);
  const auto one = [](const auto&) { return 1; };
  ordered_work(pool, options.workers * 2 + 1, next, one, work, take);
  output.commit();
  return report;
}

} // namespace cairn::corpus
