#pragma once

#include "corpus/internal/fetch_pages.h"
#include "corpus/pages/robots_rules.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

namespace cairn::corpus {

/// An address whose page is to be fetched.
struct PageTask {
  std::string address; ///< as it stands in the list
  std::string now;     ///< where redirects have led to
  int redirects = 0;
  int failures = 0; ///< in a row, that may be repaired by waiting
};

/// What is known of a server; used only by who has the turn there.
struct PageServer {
  std::optional<RobotsRules> rules{};
  /// Pages in a row that were given up because the server is not there, too
  /// slow or in trouble, with the last of these reasons.
  int given_up = 0;
  PageFailure failure{};
  std::string trouble{};
};

/// Addresses that wait for their turn: one request at a time to a server, with
/// a pause before the next. Any number of threads may use it.
class ServerQueue {
  using Clock = std::chrono::steady_clock;

 public:
  struct Entry {
    PageServer server{};
    std::deque<PageTask> tasks{};
    bool busy = false;
    Clock::time_point ready{};
  };

  struct Turn {
    PageTask task;
    Entry* entry;

    PageServer& server() const { return entry->server; }
  };

  /// Adds a task; waits while very many are in the queue already. False when
  /// the queue was stopped.
  bool add(PageTask task);
  /// Says that there are no more tasks to add.
  void finish();
  /// Wakes and ends everybody.
  void stop();

  /// The next task whose server is ready; waits for it. Empty when all is done
  /// or stopped.
  std::optional<Turn> take();

  /// Ends a turn. The server is left alone for `pause`. The task may come
  /// again, as for a redirect, also to another server.
  void done(
      const Turn& turn,
      std::chrono::milliseconds pause,
      std::optional<PageTask> again = {});

 private:
  using Servers = std::unordered_map<std::string, Entry>;

  void put(PageTask task);
  void forget_idle();

  std::mutex mutex_;
  std::condition_variable changed_; ///< a task may be ready, or the end is here
  std::condition_variable not_full_;
  Servers servers_;
  /// The servers that have tasks and serve none, by the time of the next.
  std::set<std::pair<Clock::time_point, Entry*>> ready_;
  std::size_t waiting_ = 0;
  std::size_t busy_ = 0;
  std::size_t forget_at_ = 20'000; ///< number of servers
  bool finished_ = false;
  bool stopped_ = false;
};

} // namespace cairn::corpus
