#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::serve {

/// What a server counts, for Prometheus. Any thread may add to it.
class Metrics {
 public:
  void answered(std::string_view path, int status);
  void prompt_tokens(std::int64_t count) { prompt_tokens_ += count; }
  void new_tokens(std::int64_t count) { new_tokens_ += count; }
  void first_token(double seconds);
  void finished_text(double seconds);
  void cancelled_text() { ++cancelled_; }

  /// In Prometheus' text format. `texts` are those that are computed or wait,
  /// of at most `room`.
  std::string text(std::size_t texts, std::size_t room) const;

  std::int64_t all_new_tokens() const { return new_tokens_; }

 private:
  /// Seconds, counted up to each of some limits.
  class Histogram {
   public:
    void add(double seconds);
    void print(std::string_view name, std::string_view help, std::string& to)
        const;

   private:
    static constexpr std::array
        limits{0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0};
    std::array<std::int64_t, limits.size()> counts_{};
    std::int64_t count_ = 0;
    double sum_ = 0;
  };

  std::atomic<std::int64_t> prompt_tokens_ = 0;
  std::atomic<std::int64_t> new_tokens_ = 0;
  std::atomic<std::int64_t> cancelled_ = 0;
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::int64_t> answers_;
  Histogram first_tokens_;
  Histogram texts_;
};

} // namespace cairn::serve
