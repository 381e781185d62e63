#include "distributed/watch/watchdog.h"

#include "distributed/start/handshake.h"
#include "distributed/start/timeout.h"
#include "distributed/watch/diagnosis.h"

#include <cairn/base/error.h>
#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace cairn::distributed {
namespace {

constexpr const char* alarm_key = "watchdog/alarm";
constexpr const char* verdict_key = "watchdog/verdict";
constexpr const char* wake_prefix = "watchdog/wake/";
constexpr const char* notes_prefix = "watchdog/notes/";
constexpr const char* seen_prefix = "watchdog/seen/";
constexpr const char* left_prefix = "watchdog/left/";
constexpr const char* answer_prefix = "watchdog/answer/";

constexpr const char* ask = "ask"; ///< value of a wake key that asks for notes

/// Records in a rank's notes. One rank reads the notes of a thousand: the
/// latest calls are enough.
constexpr std::size_t records_in_notes = 32;

/// Time that the store has for an answer, at least.
constexpr std::chrono::milliseconds least_limit = std::chrono::seconds(3);

/// Delay in waking up that means the process was suspended: its threads did not
/// run in between.
constexpr auto suspended = std::chrono::seconds(1);

std::string key(const char* prefix, int rank) {
  return prefix + std::to_string(rank);
}

std::string unless_said(const std::string& text, const std::string& before) {
  return before.find(text) == std::string::npos ? text : "";
}

} // namespace

bool has_left(Store& store, int rank) {
  return store.get(key(left_prefix, rank)).has_value();
}

void ask_for_notes(Store& store, int rank) {
  store.set(key(wake_prefix, rank), ask);
}

std::optional<Notes> answered_notes(Store& store, int rank) {
  const auto text = store.get(key(answer_prefix, rank));
  return text ? notes_from_text(*text) : std::nullopt;
}

std::vector<int> silent_ranks(
    Store& store,
    int self,
    const std::vector<int>& ranks,
    std::chrono::milliseconds grace) {
  std::vector<std::string> answers;
  std::vector<int> asked;
  for (const int rank : ranks) {
    if (rank != self) {
      asked.push_back(rank);
      answers.push_back(key(answer_prefix, rank));
      store.erase(answers.back()); // an answer to an earlier question
      ask_for_notes(store, rank);
    }
  }
  std::vector<int> silent;
  if (!store.wait(answers, grace)) {
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (!store.get(answers[i])) {
        silent.push_back(asked[i]);
      }
    }
  }
  return silent;
}

std::shared_ptr<Watchdog> Watchdog::start(
    Options options,
    std::unique_ptr<Store> store) {
  const std::shared_ptr<Watchdog> self(
      new Watchdog(std::move(options), std::move(store)));
  // The callback is weak: the library's thread may outlive the last user of the
  // watchdog.
  self->dying_ = std::make_shared<LibraryThreadListener>(
      [weak = self->weak_from_this()](const std::string& text) {
        if (const auto alive = weak.lock()) {
          alive->library_thread_died(text);
        }
      });
  on_library_thread_death(self->dying_);
  return self;
}

Watchdog::Watchdog(Options options, std::unique_ptr<Store> store)
    : options_(std::move(options)),
      store_(std::move(store)),
      listening_(store_->clone()),
      recorder_(options_.recorder_capacity),
      watching_([this] { watch(); }),
      hearing_([this] { hear(); }) {
  // Its own threads make all calls of these two connections from here on.
  const auto limit = std::max(options_.grace, least_limit);
  store_->limit_answers(limit);
  listening_->limit_answers(limit);
}

Watchdog::~Watchdog() {
  if (std::uncaught_exceptions() > exceptions_before_) {
    // The program prints why once it has left the job.
    end_with("it ends with an exception; its output says which");
  }
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  watching_.join();
  if (say_goodbye()) {
    // The second thread wakes up by the goodbye, unless the store's host does
    // not pass it on.
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, options_.grace, [&] { return heard_; });
  }
  listening_->hang_up();
  hearing_.join();
}

/// False when the store is out of reach.
bool Watchdog::say_goodbye() {
  try {
    if (!failed()) {
      publish_notes(/*left=*/true);
      store_->set(key(left_prefix, options_.rank), "");
      if (options_.hosts_store) {
        let_others_finish();
      }
    }
    store_->set(key(wake_prefix, options_.rank), "stop");
    return true;
  } catch (const Error&) {
    return false; // nobody would read the goodbye
  }
}

/// Waits for the other ranks, which may be at work for a while: the store ends
/// with this process.
void Watchdog::let_others_finish() {
  constexpr auto look = std::chrono::milliseconds(200); // between two looks
  const auto begin = Clock::now();
  bool said = false;
  while (!store_->wait(keys(left_prefix), look)) {
    const auto waited = Clock::now() - begin;
    if (store_->get(alarm_key)) {
      // The others compare notes; the notes of this rank are there already.
      let_others_see_verdict();
      return;
    }
    if (waited > options_.timeout) {
      return;
    }
    if (!said && waited > options_.grace) {
      said = true;
      std::vector<int> present;
      for (int rank = 0; rank < options_.world_size; ++rank) {
        if (!store_->get(key(left_prefix, rank))) {
          present.push_back(rank);
        }
      }
      options_.logger.info(
          "done; keeps the store open for {}",
          name_ranks(present));
    }
  }
}

/// Waits until the ranks that are still there and have answered have seen the
/// verdict.
void Watchdog::let_others_see_verdict() {
  store_->wait({verdict_key}, 3 * options_.grace);
  std::vector<std::string> seen;
  for (int rank = 0; rank < options_.world_size; ++rank) {
    if (store_->get(key(notes_prefix, rank)) &&
        !store_->get(key(left_prefix, rank))) {
      seen.push_back(key(seen_prefix, rank));
    }
  }
  store_->wait(seen, options_.grace);
}

std::shared_ptr<Operation> Watchdog::begin(
    CollectiveRecord record,
    std::shared_ptr<const std::vector<int>> members,
    std::optional<std::chrono::milliseconds> timeout) {
  record = recorder_.schedule(std::move(record));
  const auto deadline =
      record.called + bounded(timeout.value_or(options_.timeout));
  auto operation = std::make_shared<Operation>(
      std::move(record),
      std::move(members),
      deadline,
      // The callback is weak: the backend's thread may outlive the last user of
      // the watchdog.
      [weak = weak_from_this()](Operation& it, const std::string& error) {
        if (const auto self = weak.lock()) {
          self->ended(it, error);
        }
      });
  bool earlier = false;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) {
      throw CommError(*error_for(operation->record()));
    }
    running_.emplace(operation->record().id, operation);
    earlier = deadline < wake_at_;
    if (!dead_thread_.empty()) {
      blame(*operation, std::exchange(dead_thread_, ""));
      earlier = true;
    }
  }
  if (earlier) {
    changed_.notify_all();
  }
  return operation;
}

void Watchdog::ended(Operation& operation, const std::string& error) {
  // Keeps `operation` alive when its map entry goes.
  std::shared_ptr<Operation> held;
  {
    const std::lock_guard lock(mutex_);
    const auto found = running_.find(operation.record().id);
    if (found == running_.end()) {
      return;
    }
    if (!error.empty()) {
      blame(operation, error);
    } else {
      held = std::move(found->second);
      running_.erase(found);
    }
  }
  if (held) {
    recorder_.ended(operation.record().id, CollectiveState::finished);
    held->succeed();
  } else {
    changed_.notify_all();
  }
}

void Watchdog::library_thread_died(const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    // The call that the thread worked for is not known: the oldest is the
    // likeliest.
    if (running_.empty()) {
      dead_thread_ = text;
    } else {
      blame(*running_.begin()->second, text);
    }
  }
  changed_.notify_all();
}

void Watchdog::end_with(const std::string& error) {
  std::unique_lock lock(mutex_);
  if (!failure_.empty()) {
    return;
  }
  broken_ = Alarm{.rank = options_.rank, .own_error = error};
  changed_.notify_all();
  // The first thread tells the others, who answer at once or not at all.
  changed_.wait_for(lock, 4 * options_.grace, [&] {
    return !failure_.empty();
  });
}

void Watchdog::blame(const Operation& operation, const std::string& text) {
  if (!broken_) {
    broken_ = Alarm{
        .rank = options_.rank,
        .record = operation.record(),
        .members = operation.members(),
        .library_error = text};
  }
}

Watchdog::Clock::time_point Watchdog::next_deadline() const {
  auto result = Clock::time_point::max();
  for (const auto& [id, operation] : running_) {
    result = std::min(result, operation->deadline());
  }
  return result;
}

std::optional<Alarm> Watchdog::due() const {
  const auto now = Clock::now();
  for (const auto& [id, operation] : running_) {
    if (operation->deadline() <= now) {
      using Seconds = std::chrono::duration<double>;
      return Alarm{
          .rank = options_.rank,
          .record = operation->record(),
          .members = operation->members(),
          .waited_seconds = Seconds(now - operation->record().called).count()};
    }
  }
  return std::nullopt;
}

/// Ends operations whose time is up and that are over, though nobody has said
/// so. Lets go of the lock and returns true if there are any.
bool Watchdog::end_those_over(std::unique_lock<std::mutex>& lock) {
  std::vector<std::shared_ptr<Operation>> over;
  const auto now = Clock::now();
  for (const auto& [id, operation] : running_) {
    if (operation->deadline() <= now && operation->is_over()) {
      over.push_back(operation);
    }
  }
  if (over.empty()) {
    return false;
  }
  lock.unlock();
  for (const auto& operation : over) {
    operation->part_ended("");
  }
  lock.lock();
  return true;
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (end_those_over(lock)) {
      continue;
    }
    std::optional<Alarm> alarm = broken_ ? broken_ : due();
    if (alarm || called_) {
      lock.unlock();
      investigate(std::move(alarm));
      return;
    }
    wake_at_ = next_deadline();
    const auto asleep = Clock::now();
    if (wake_at_ == Clock::time_point::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, wake_at_);
    }
    forgive_suspension(asleep, Clock::now());
  }
}

/// Gives operations the time again that they had left before a suspension, if
/// there was one while the thread slept: it woke up long after a deadline, or
/// long after the call that should have woken it.
void Watchdog::forgive_suspension(
    Clock::time_point asleep,
    Clock::time_point awake) {
  auto expected = wake_at_;
  for (const auto& [id, operation] : running_) {
    if (operation->deadline() < wake_at_) {
      expected = std::min(expected, operation->record().called);
    }
  }
  if (awake - std::max(asleep, expected) <= suspended) {
    return;
  }
  for (const auto& [id, operation] : running_) {
    operation->postpone(awake - std::max(asleep, operation->record().called));
  }
}

void Watchdog::hear() {
  listen();
  {
    const std::lock_guard lock(mutex_);
    heard_ = true;
  }
  changed_.notify_all();
}

void Watchdog::listen() {
  const std::string mine = key(wake_prefix, options_.rank);
  try {
    for (;;) {
      if (!listening_->wait({mine}, std::chrono::hours(24))) {
        continue;
      }
      if (listening_->get(mine) != ask) {
        break;
      }
      listening_->erase(mine);
      listening_->set(
          key(answer_prefix, options_.rank),
          to_text(notes(/*left=*/false)));
      // The question may have overwritten the wake-up for an alarm or for the
      // end.
      const bool alarm = listening_->get(alarm_key).has_value();
      const std::lock_guard lock(mutex_);
      if (alarm || stopping_) {
        break;
      }
    }
  } catch (const Error&) {
    // The store is gone. A failing collective will show whether that matters:
    // rank 0 may just have finished before this rank.
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    called_ = true;
  }
  changed_.notify_all();
}

void Watchdog::investigate(std::optional<Alarm> alarm) {
  const bool knows = alarm && !alarm->own_error.empty();
  const std::string text = verdict(std::move(alarm));
  if (!knows) { // the program has printed its own error
    options_.logger.error("{}", text);
  }
  try {
    store_->set(key(seen_prefix, options_.rank), "");
    // The host of the store waits: once its own waits return, this process may
    // exit and take the store along.
    if (options_.hosts_store) {
      let_others_see_verdict();
    }
  } catch (const Error&) {
    // Nobody is left to wait for.
  }
  fail_all(text);
}

std::string Watchdog::verdict(std::optional<Alarm> alarm) {
  try {
    publish_notes(/*left=*/false);
    bool ours = false;
    if (alarm) {
      const std::string text = to_text(*alarm);
      const std::string agreed = store_->set_once(alarm_key, text);
      ours = agreed == text;
      alarm = alarm_from_text(agreed);
    } else {
      alarm = alarm_from_text(store_->get(alarm_key).value_or(""));
    }
    if (!alarm) {
      return "the ranks disagree about the alarm in the store";
    }
    {
      const std::lock_guard lock(mutex_);
      library_error_ = alarm->library_error;
    }
    if (ours) {
      for (int rank = 0; rank < options_.world_size; ++rank) {
        store_->set(key(wake_prefix, rank), "alarm");
      }
    } else if (store_->wait({verdict_key}, 2 * options_.grace)) {
      return store_->get(verdict_key).value_or("");
    }
    // This rank finds out: it raised the alarm, or the rank that did is gone
    // itself.
    return store_->set_once(verdict_key, compare_notes(*alarm));
  } catch (const Error&) {
    if (alarm) {
      const std::lock_guard lock(mutex_);
      library_error_ = alarm->library_error;
    }
    return store_is_gone();
  }
}

std::string Watchdog::store_is_gone() const {
  return fmt::format(
      "{}, which hosts the store at {}, does not answer (dead, stopped or cut "
      "off)",
      options_.store_host,
      store_->address());
}

std::string Watchdog::compare_notes(const Alarm& alarm) {
  store_->wait(keys(notes_prefix), options_.grace);
  std::map<int, Notes> notes;
  for (int rank = 0; rank < options_.world_size; ++rank) {
    const auto text = store_->get(key(notes_prefix, rank));
    if (auto parsed = text ? notes_from_text(*text) : std::nullopt) {
      notes.emplace(rank, std::move(*parsed));
    }
  }
  return diagnose(alarm, notes, options_.world_size);
}

Notes Watchdog::notes(bool left) const {
  Notes result{
      .rank = options_.rank,
      // The connections of groups close a moment before the goodbye.
      .left = left || recorder_.has_no_group_left(),
      .groups = recorder_.groups(),
      .reached = recorder_.reached(),
      .records = recorder_.records()};
  if (result.records.size() > records_in_notes) {
    result.records.erase(
        result.records.begin(),
        result.records.end() - static_cast<std::ptrdiff_t>(records_in_notes));
  }
  // A call that this rank still waits for matters, however long ago it was
  // made.
  std::vector<CollectiveRecord> waiting;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, operation] : running_) {
      if (result.records.empty() || id < result.records.front().id) {
        waiting.push_back(operation->record());
      }
    }
  }
  result.records.insert(result.records.begin(), waiting.begin(), waiting.end());
  return result;
}

void Watchdog::publish_notes(bool left) {
  store_->set(key(notes_prefix, options_.rank), to_text(notes(left)));
}

std::vector<std::string> Watchdog::keys(const char* prefix) const {
  std::vector<std::string> result;
  for (int rank = 0; rank < options_.world_size; ++rank) {
    result.push_back(key(prefix, rank));
  }
  return result;
}

std::shared_ptr<const CommError> Watchdog::error_for(
    const CollectiveRecord& record) const {
  return std::make_shared<const CommError>(Problem{
      .what = failure_,
      .where = fmt::format(
          "rank {}, {} at {}",
          options_.rank,
          name_of(record),
          record.site),
      .values = unless_said(library_error_, failure_)});
}

void Watchdog::fail_all(const std::string& verdict) {
  std::map<std::uint64_t, std::shared_ptr<Operation>> running;
  {
    const std::lock_guard lock(mutex_);
    failure_ = verdict;
    running.swap(running_);
  }
  changed_.notify_all();
  for (const auto& [id, operation] : running) {
    recorder_.ended(id, CollectiveState::failed);
    operation->fail(error_for(operation->record()));
  }
  // All have failed before the first is aborted: whoever an abort sets free
  // finds the error.
  for (const auto& [id, operation] : running) {
    operation->abort_if_failed();
  }
}

bool Watchdog::failed() const {
  const std::lock_guard lock(mutex_);
  return !failure_.empty();
}

void Watchdog::throw_if_failed() const {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) {
    throw CommError(
        {.what = failure_,
         .where = fmt::format("rank {}", options_.rank),
         .values = unless_said(library_error_, failure_),
         .remedy = "the job has failed before this call"});
  }
}

} // namespace cairn::distributed
