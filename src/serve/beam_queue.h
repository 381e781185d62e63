#pragma once

#include <cairn/generate/beam_search.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace cairn::serve {

/// Searches of many clients, one after the other on a thread of its own, beside
/// the batch of texts.
class BeamQueue {
 public:
  /// Called on the queue's thread, with the texts or a reason why there are
  /// none.
  using OnFound = std::function<void(
      const std::vector<generate::Beam>& beams,
      const std::string& failure)>;
  struct Search {
    std::vector<std::int64_t> prompt;
    generate::BeamOptions options;
    OnFound on_found;
  };

  static constexpr std::int64_t widest = 64;

  BeamQueue(
      generate::TextModel model,
      const generate::TextBatchOptions& options,
      std::size_t most_searches);
  /// Drops the searches that wait.
  ~BeamQueue();
  BeamQueue(const BeamQueue&) = delete;
  BeamQueue& operator=(const BeamQueue&) = delete;

  /// False if too many searches wait.
  bool submit(Search search);

 private:
  void work(const std::stop_token& stop);
  void run(const Search& search);

  generate::TextModel model_;
  generate::TextBatchOptions options_;
  std::size_t most_searches_;
  /// The thread's; made for the first search, since it takes memory.
  std::optional<generate::BeamSearch> beams_;
  std::mutex mutex_;
  std::condition_variable_any news_;
  std::deque<Search> waiting_;
  std::jthread thread_; ///< last: it uses the others
};

} // namespace cairn::serve
