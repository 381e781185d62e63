#pragma once

#include "distributed/start/store.h"
#include "distributed/watch/watchdog.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace cairn::distributed {

/// Looks after ranks that connect with each other, which ends only when all of
/// them have come. A rank that waits calls check() now and then: one of the
/// waiting ranks asks all members for their notes, and if some do not answer,
/// every waiting rank throws an error that names them. Does not use libtorch.
class ConnectionWatch {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::string key;          ///< of this meeting in the store
    std::string what;         ///< for messages: `making group "world"`
    int rank = 0;             ///< this rank, in the world
    std::vector<int> members; ///< ranks that connect, in the world
    std::chrono::milliseconds timeout{};
    /// Time that passes before the members are first asked.
    std::chrono::milliseconds patience = std::chrono::seconds(3);
  };

  /// The watchdog outlives it. Its connection to the store is used: the
  /// connection of the job may be busy with a wait of the library's.
  ConnectionWatch(Watchdog& watchdog, Options options);

  /// Tells the others that this rank has come. Called at most once.
  void come();

  /// Throws CommError when a member is gone, or when the time is over. Costs
  /// next to nothing when called often.
  void check();

  /// The reason why the library could not connect the ranks: who is gone, if
  /// somebody is.
  std::string why_failed();

 private:
  std::string place(const std::string& name) const;
  /// Looks at the store and the members; returns why there is no use in
  /// waiting, or nothing.
  std::string look(Clock::duration waited);
  /// Asks all members for notes; returns which do not answer, or nothing.
  std::string ask_members() const;
  std::string time_is_over() const;
  [[noreturn]] void give_up(const std::string& why) const;

  Watchdog& watchdog_;
  Store& store_;
  const Options options_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point next_look_;
  std::uint64_t rounds_ = 0; ///< times that members were asked, by anyone
};

} // namespace cairn::distributed
