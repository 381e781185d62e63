#include "cli/data/count_words.h"

#include "base/internal/thread_pool.h"
#include "data/internal/json_line.h"
#include "data/internal/line_reader.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

namespace cairn::cli {
namespace {

/// The memory that one counting thread uses.
struct Worker {
  text::WordCounter words;
  data::JsonLineParser parser;
};

/// Workers that are idle; there are never more of them than jobs at a time.
class Workers {
 public:
  explicit Workers(std::string json_key) : json_key_(std::move(json_key)) {}

  std::unique_ptr<Worker> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      return std::make_unique<Worker>(
          Worker{first_.fresh(), data::JsonLineParser({json_key_})});
    }
    auto worker = std::move(idle_.back());
    idle_.pop_back();
    return worker;
  }
  void give_back(std::unique_ptr<Worker> worker) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(worker));
  }

  /// The sum of all counts, added in pairs.
  text::WordCounter sum(ThreadPool& pool) {
    std::size_t count = idle_.size();
    while (count > 1) {
      const std::size_t half = (count + 1) / 2;
      pool.parallel_for(count - half, 1, [&](std::size_t i, std::size_t) {
        idle_[i]->words.add(idle_[half + i]->words);
        idle_[half + i].reset();
      });
      count = half;
    }
    return count == 0 ? std::move(first_) : std::move(idle_[0]->words);
  }

 private:
  std::string json_key_;
  text::WordCounter first_; ///< makes the others; counts nothing itself
  std::mutex mutex_;
  std::vector<std::unique_ptr<Worker>> idle_;
};

void count_lines(std::string_view text, text::WordCounter& words) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    words.add(text.substr(0, end));
    text.remove_prefix(end);
  }
}

void count_jsonl(data::LineBlock& block, Worker& worker) {
  std::string_view rest = block.text();
  for (std::uint64_t number = block.first_line; !rest.empty(); ++number) {
    const std::string_view line = data::take_line(rest);
    if (line.find_first_not_of(" \t") == std::string_view::npos) {
      continue;
    }
    try {
      const std::size_t at =
          static_cast<std::size_t>(line.data() - block.buffer.data());
      worker.parser.parse({block.buffer.data() + at, line.size()});
    } catch (const DataError& error) {
      Problem problem = error.problem();
      problem.where = fmt::format("{}:{}", block.file, number);
      throw DataError(std::move(problem));
    }
    for (const auto& text : worker.parser.texts()) {
      for (const std::string_view part : text.parts) {
        worker.words.add(part);
      }
    }
  }
}

} // namespace

text::WordCounter count_words(
    const std::vector<WordSource>& sources,
    const CountWordsOptions& options,
    const std::function<void(std::uint64_t bytes)>& read) {
  Workers workers(options.json_key);
  ThreadPool pool({.threads = options.threads, .queue_limit = options.threads});
  std::deque<std::future<void>> jobs;
  for (const WordSource& source : sources) {
    data::BlockReader reader(source.file, {});
    for (;;) {
      auto block = std::make_shared<data::LineBlock>();
      if (!reader.next(*block)) {
        break;
      }
      jobs.push_back(pool.submit([&, block, jsonl = source.is_jsonl] {
        auto worker = workers.take();
        if (jsonl) {
          count_jsonl(*block, *worker);
        } else {
          count_lines(block->text(), worker->words);
        }
        workers.give_back(std::move(worker));
        read(block->stored);
      }));
      // Jobs that are done are checked early, so that an error ends the reading
      // soon.
      while (!jobs.empty() &&
             jobs.front().wait_for(std::chrono::seconds(0)) ==
                 std::future_status::ready) {
        jobs.front().get();
        jobs.pop_front();
      }
    }
  }
  for (auto& job : jobs) {
    job.get();
  }
  return workers.sum(pool);
}

} // namespace cairn::cli
