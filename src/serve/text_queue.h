#pragma once

#include <cairn/generate/text_batch.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace cairn::serve {

/// Texts of many clients in one batch, which a thread of its own computes.
class TextQueue {
 public:
  /// Called on the queue's thread with everything that happens to a text.
  /// `failure` is the reason why a text that was taken cannot be continued; the
  /// growth then has an ending. May call cancel(), nothing else of the queue.
  using OnGrowth = std::function<
      void(const generate::TextGrowth& growth, const std::string& failure)>;
  using Ticket = std::uint64_t;

  /// `most_texts`: texts that may be computed or wait at a time.
  TextQueue(generate::TextBatch batch, std::size_t most_texts);
  /// Cancels all texts.
  ~TextQueue();
  TextQueue(const TextQueue&) = delete;
  TextQueue& operator=(const TextQueue&) = delete;

  struct Text {
    generate::TextRequest request;
    OnGrowth on_growth;
  };
  /// Takes all of the texts, or none of them (nothing is returned) if there is
  /// no room for all. `taken` is called, if it is set, before any of their
  /// growth.
  std::optional<std::vector<Ticket>> submit(
      std::vector<Text> texts,
      const std::function<void()>& taken = {});
  /// Ends a text. One that has ended is left as it is.
  void cancel(Ticket ticket);

  /// Number of texts that are computed or wait.
  std::size_t size() const;
  std::size_t most_texts() const noexcept { return most_texts_; }
  /// Length of the longest text in tokens, prompt included.
  std::int64_t longest() const noexcept { return longest_; }
  /// T5: length of the longest source in tokens.
  std::int64_t longest_source() const noexcept { return longest_source_; }

 private:
  struct Arrival {
    Ticket ticket;
    Text text;
  };
  void work(const std::stop_token& stop);
  void take_in(std::vector<Arrival> arrivals);
  void report(const generate::TextGrowth& growth);
  void fail_all(const std::string& why);
  void forget(std::size_t texts);

  generate::TextBatch batch_; ///< the thread's
  std::size_t most_texts_;
  std::int64_t longest_;
  std::int64_t longest_source_;

  mutable std::mutex mutex_;
  std::condition_variable_any news_;
  std::vector<Arrival> arrivals_;
  std::vector<Ticket> cancelled_;
  Ticket next_ = 0;
  std::size_t size_ = 0;

  // The thread's: texts in the batch.
  struct Running {
    Ticket ticket;
    OnGrowth on_growth;
  };
  std::map<std::uint64_t, Running> running_; ///< by their number in the batch
  std::map<Ticket, std::uint64_t> numbers_;
  std::jthread thread_; ///< last: it uses the others
};

} // namespace cairn::serve
