#pragma once

#include "distributed/backends/library_thread.h"
#include "distributed/backends/operation.h"
#include "distributed/start/store.h"
#include "distributed/watch/flight_recorder.h"
#include "distributed/watch/notes.h"

#include <cairn/base/log.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace cairn::distributed {

/// True when a rank's program has ended in good order.
bool has_left(Store& store, int rank);

/// Asks a rank for its progress. Its watchdog answers even if the rank hangs.
void ask_for_notes(Store& store, int rank);
/// The last answer of a rank, if there was one.
std::optional<Notes> answered_notes(Store& store, int rank);
/// Asks ranks whether they are there; `self` need not be asked. Returns those
/// that do not answer within `grace`: they are gone, or stopped.
std::vector<int> silent_ranks(
    Store& store,
    int self,
    const std::vector<int>& ranks,
    std::chrono::milliseconds grace);

/// Watches every collective of this rank. When one fails or does not finish in
/// time, the ranks compare notes through the store: each tells its last calls,
/// one of them works out who is to blame, and all print that line and fail with
/// it.
///
/// It has two threads, both asleep until there is something to do. One waits
/// for the next deadline. The other waits for a call from another rank, so that
/// a rank which is busy elsewhere still answers.
class Watchdog : public std::enable_shared_from_this<Watchdog> {
 public:
  struct Options {
    int rank = 0;
    int world_size = 1;
    bool hosts_store = false;          ///< the store dies with this process
    std::string store_host = "rank 0"; ///< the process that the store lives in
    std::chrono::milliseconds timeout = std::chrono::minutes(10);
    /// Time that the others have for their notes before they count as gone.
    std::chrono::milliseconds grace = std::chrono::seconds(3);
    std::size_t recorder_capacity = 256;
    Logger logger;
  };

  static std::shared_ptr<Watchdog> start(
      Options options,
      std::unique_ptr<Store> store);
  /// Tells the others that this rank has left: in good order, or with an
  /// exception that is on its way out of the program.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  FlightRecorder& recorder() { return recorder_; }
  /// Time that a rank has for an answer before it counts as gone.
  std::chrono::milliseconds grace() const { return options_.grace; }
  /// A connection that the watchdog itself uses only when a call is in trouble.
  Store& store() { return *store_; }
  /// What a rank says that cannot reach the store any more.
  std::string store_is_gone() const;

  /// Records the call and watches it until it ends, with the job's timeout
  /// unless `timeout` is given. Throws the job's error if the job has failed
  /// before.
  std::shared_ptr<Operation> begin(
      CollectiveRecord record,
      std::shared_ptr<const std::vector<int>> members,
      std::optional<std::chrono::milliseconds> timeout = {});

  bool failed() const;
  void throw_if_failed() const;
  /// Ends the job because this rank ends with `error`: the others fail with
  /// that text, instead of waiting for this rank. Returns when they know.
  void end_with(const std::string& error);

 private:
  using Clock = CollectiveRecord::Clock;

  Watchdog(Options options, std::unique_ptr<Store> store);

  void watch(); // the first thread
  void hear();  // the second thread
  void listen();
  bool say_goodbye();
  void ended(Operation& operation, const std::string& error);
  void library_thread_died(const std::string& text);
  void blame(const Operation& operation, const std::string& text);
  void let_others_finish();
  void let_others_see_verdict();
  void forgive_suspension(Clock::time_point asleep, Clock::time_point awake);
  Clock::time_point next_deadline() const;
  std::optional<Alarm> due() const;
  bool end_those_over(std::unique_lock<std::mutex>& lock);
  void investigate(std::optional<Alarm> alarm);
  std::string verdict(std::optional<Alarm> alarm);
  std::string compare_notes(const Alarm& alarm);
  Notes notes(bool left) const;
  void publish_notes(bool left);
  void fail_all(const std::string& verdict);
  std::shared_ptr<const CommError> error_for(const CollectiveRecord&) const;
  std::vector<std::string> keys(const char* prefix) const;

  const Options options_;
  const int exceptions_before_ = std::uncaught_exceptions();
  const std::unique_ptr<Store> store_;     ///< used by the first thread
  const std::unique_ptr<Store> listening_; ///< used by the second
  FlightRecorder recorder_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool called_ = false;         ///< another rank raised the alarm
  bool heard_ = false;          ///< the second thread is at its end
  std::optional<Alarm> broken_; ///< a library reported an error
  std::string failure_;         ///< why the job is over; empty while it runs
  std::string library_error_;
  /// Error of a library's thread that died when no call was there to blame.
  std::string dead_thread_;
  Clock::time_point wake_at_ = Clock::time_point::max();
  std::map<std::uint64_t, std::shared_ptr<Operation>> running_;

  std::shared_ptr<LibraryThreadListener> dying_;
  std::thread watching_;
  std::thread hearing_;
};

} // namespace cairn::distributed
