#include "launch/supervise/supervision.h"

#include "base/internal/terminal.h"
#include "launch/supervise/exit_status.h"
#include "launch/supervise/node_protocol.h"
#include "launch/supervise/output_stream.h"
#include "launch/supervise/process_sweep.h"
#include "launch/supervise/sentinel.h"
#include "launch/supervise/stopped_children.h"
#include "launch/supervise/subreaper.h"
#include "launch/supervise/supervised_child.h"
#include "launch/supervise/suspension.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

namespace cairn::launch {
namespace {

using Clock = std::chrono::steady_clock;

/// Milliseconds that poll() may wait until a time; 0 when it is over, and fewer
/// than all when an int cannot hold them.
int poll_time_until(Clock::time_point time) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now());
  return static_cast<int>(
      std::clamp<long>(left.count(), 0, std::numeric_limits<int>::max()));
}

/// Time that a rank has to fail by itself after others have failed because of
/// it.
constexpr std::chrono::milliseconds time_for_cause{5000};

/// What a failed child is to blame for, from the likeliest cause of a job's end
/// to the least likely. A rank killed from outside makes other ranks fail with
/// an error, rarely vice versa.
enum class Cause { own_error, killed, unknown, another_rank };

Cause cause_of(const SupervisedChild& child) {
  if (const auto error = child.handed_error()) {
    return error->of_another_rank ? Cause::another_rank : Cause::own_error;
  }
  return child.killed_by_signal() ? Cause::killed : Cause::unknown;
}

class Supervision {
 public:
  Supervision(
      const SupervisionOptions& options,
      SignalWatch& signals,
      const Logger& logger)
      : options_(options),
        signals_(signals),
        logger_(logger),
        spared_(descendants(::getpid())),
        sentinel_(launch_id_) {
    spared_.push_back(sentinel_.pid());
  }

  ~Supervision() {
    if (!swept_) { // an exception is being thrown
      sweep();
    }
  }

  void start(std::vector<ChildSpec> specs);
  Outcome run();

 private:
  enum class Phase { running, stopping, killing, given_up };

  bool any_running() const;
  void wait_for_something();
  std::vector<std::pair<SupervisedChild*, ChildStream*>> open_streams();
  int poll_time() const;
  std::optional<Clock::time_point> next_deadline() const;
  void take_signals();
  void reap();
  void look_for_cause(SupervisedChild* failed);
  void tell_of_stop(SupervisedChild& child, int status);
  void end_suspicion();
  void end_for_stopped(SupervisedChild& child);
  void forgive_suspension(Clock::time_point asleep, int timeout);
  void judge();
  std::optional<Clock::time_point> next_judgement() const;
  void take_order();
  std::size_t read(SupervisedChild& child, ChildStream& stream);
  void line(SupervisedChild& child, int destination, std::string_view text);
  void record(
      SupervisedChild& child,
      int destination,
      const NodeRecord& record);
  void show(int destination, std::string_view text);
  bool wait_for_reader(int fd);
  int poll_time_of_reader(bool killed) const;
  bool take_stop_signals();
  void flush_unfinished_lines(Clock::time_point now);
  void fail(SupervisedChild& child, Failure failure);
  void tell_failure();
  void name_real_end();
  void told_to_stop(int signal);
  void stop_all(int signal, const SupervisedChild* except);
  bool can_log() const;
  std::vector<pid_t> kill_running();
  void keep_deadline();
  void sweep();
  void drain();

  const SupervisionOptions& options_;
  SignalWatch& signals_;
  const Logger& logger_;
  const std::string launch_id_ = make_launch_id();
  std::vector<pid_t> spared_; // existed before us, or is our sentinel
  Subreaper subreaper_;
  Sentinel sentinel_;
  std::vector<ChildSpec> specs_;
  Children children_;
  OutputStream output_{1, "stdout", logger_, [this](int fd) {
                         return wait_for_reader(fd);
                       }};
  OutputStream error_{2, "stderr", logger_, [this](int fd) {
                        return wait_for_reader(fd);
                      }};
  Phase phase_ = Phase::running;
  Clock::time_point deadline_; // end of the phase, unless running
  bool swept_ = false;
  bool reap_due_ = false;        // children ended while a reader blocked us
  bool reader_given_up_ = false; // it blocked us for too long
  bool asked_to_end_ = false;    // by a signal or an order, in any phase
  bool orders_ended_ = false;    // stdin is at its end
  SupervisedChild* suspect_ = nullptr; ///< failed because of another rank
  Clock::time_point deadline_of_suspect_;
  const SupervisedChild* culprit_ = nullptr;
  bool culprit_ran_on_ = false; ///< it was blamed before its end
  Outcome outcome_;
};

void Supervision::start(std::vector<ChildSpec> specs) {
  specs_ = std::move(specs);
  for (ChildSpec& spec : specs_) {
    spec.process.environment.push_back(
        fmt::format("{}={}", launch_id_variable, launch_id_));
    spec.process.lock_limit = lock_limit_of(launch_id_);
  }
  for (const ChildSpec& spec : specs_) {
    children_.push_back(std::make_unique<SupervisedChild>(
        spec,
        signals_.previous_mask(),
        logger_));
  }
}

Outcome Supervision::run() {
  while (any_running() && phase_ != Phase::given_up) {
    wait_for_something();
    keep_deadline();
  }
  sweep();
  reap(); // orphans of ranks are our children now
  drain();
  if (culprit_ != nullptr) {
    // Complete only now, when everything it wrote has been read.
    name_real_end();
    outcome_.failure->last_lines = culprit_->last_lines();
  }
  return outcome_;
}

/// Says how the culprit has ended by itself, if it still ran when it was blamed
/// for the error that it had handed over.
void Supervision::name_real_end() {
  if (!culprit_ran_on_ || !culprit_->failed() || culprit_->killed_by_signal()) {
    return;
  }
  outcome_.failure = culprit_->failure();
  if (options_.is_node_launcher) {
    tell_failure();
  }
}

bool Supervision::any_running() const {
  return std::any_of(children_.begin(), children_.end(), [](const auto& child) {
    return child->running();
  });
}

void Supervision::wait_for_something() {
  std::vector<pollfd> watched = {{signals_.fd(), POLLIN, 0}};
  const auto streams = open_streams();
  for (const auto& [child, stream] : streams) {
    watched.push_back({stream->fd.get(), POLLIN, 0});
  }
  if (options_.is_node_launcher && !orders_ended_) {
    watched.push_back({0, POLLIN, 0});
  }
  const int timeout = poll_time();
  const auto asleep = Clock::now();
  const int ready = ::poll(watched.data(), watched.size(), timeout);
  forgive_suspension(asleep, timeout);
  if (ready < 0) {
    return; // EINTR
  }
  // Output is read first, so that a failing child's words come before the
  // report of its end.
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (watched[i + 1].revents != 0) {
      read(*streams[i].first, *streams[i].second);
    }
  }
  flush_unfinished_lines(Clock::now());
  if (watched.front().revents != 0 || reap_due_) {
    take_signals();
  }
  if (watched.size() > streams.size() + 1 && watched.back().revents != 0) {
    take_order();
  }
  if (output_.closed() || error_.closed()) {
    told_to_stop(SIGPIPE);
  }
}

std::vector<std::pair<SupervisedChild*, ChildStream*>> Supervision::
    open_streams() {
  std::vector<std::pair<SupervisedChild*, ChildStream*>> streams;
  for (const auto& child : children_) {
    for (ChildStream& stream : child->streams()) {
      if (stream.fd) {
        streams.emplace_back(child.get(), &stream);
      }
    }
  }
  return streams;
}

int Supervision::poll_time() const {
  if (reap_due_) {
    return 0;
  }
  const auto deadline = next_deadline();
  return deadline ? poll_time_until(*deadline) : -1;
}

std::optional<Clock::time_point> Supervision::next_deadline() const {
  std::optional<Clock::time_point> next;
  const auto consider = [&](std::optional<Clock::time_point> time) {
    if (time && (!next || *time < *next)) {
      next = time;
    }
  };
  if (phase_ != Phase::running) {
    consider(deadline_);
  } else {
    consider(next_judgement());
  }
  for (const auto& child : children_) {
    for (const ChildStream& stream : child->streams()) {
      consider(stream.lines.due());
    }
  }
  return next;
}

void Supervision::take_signals() {
  if (std::exchange(reap_due_, false)) {
    reap();
  }
  for (const int signal : signals_.take()) {
    if (signal == SIGCHLD) {
      reap();
    } else {
      told_to_stop(signal);
    }
  }
}

void Supervision::reap() {
  std::vector<SupervisedChild*> failed;
  int status = 0;
  constexpr int options = WNOHANG | WUNTRACED | WCONTINUED;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, options)) > 0;) {
    for (const auto& child : children_) {
      if (child->pid() == pid && (WIFSTOPPED(status) || WIFCONTINUED(status))) {
        tell_of_stop(*child, status);
      } else if (child->pid() == pid) {
        end_pause(
            children_,
            options_); // it may have gone on, and ended before we looked
        child->ended(status);
        if (child->spec().process.terminal >= 0) {
          // The child may have been killed with the cursor above its drawing.
          show(1, fmt::format("\r{}", clear_below));
        }
        if (child->failed()) {
          failed.push_back(child.get());
        }
      }
    }
  }
  if (!failed.empty() && phase_ == Phase::running) {
    look_for_cause(*std::ranges::min_element(failed, {}, [](const auto* child) {
      return cause_of(*child);
    }));
  }
}

/// Says that a child was suspended or goes on. The others wait for it, as long
/// as their timeout lets them.
void Supervision::tell_of_stop(SupervisedChild& child, int status) {
  if (WIFSTOPPED(status)) {
    child.stopped(WSTOPSIG(status));
  } else {
    end_pause(children_, options_);
    child.goes_on();
  }
  if (!can_log()) {
    return;
  }
  if (WIFSTOPPED(status)) {
    logger_.warning(
        "{} (pid {}, host {}) was stopped by {} and does nothing until SIGCONT",
        child.spec().name,
        child.pid(),
        child.spec().host,
        signal_name(WSTOPSIG(status)));
  } else {
    logger_.info("{} (pid {}) goes on", child.spec().name, child.pid());
  }
}

/// Stops the job for a failure, or waits a moment for its cause if the rank
/// says that it failed because of another one.
void Supervision::look_for_cause(SupervisedChild* failed) {
  if (cause_of(*failed) == Cause::another_rank) {
    // The rank that caused it may still be on its way out.
    for (const auto& child : children_) {
      if (const auto error = child->handed_error();
          error && !error->of_another_rank) {
        fail(*child, child->failure());
        return;
      }
    }
    if (SupervisedChild* const stopped = first_stopped(children_, options_)) {
      end_for_stopped(*stopped);
      return;
    }
    if (suspect_ == nullptr) {
      suspect_ = failed;
      deadline_of_suspect_ = Clock::now() + time_for_cause;
    }
    return;
  }
  fail(*failed, failed->failure());
}

void Supervision::take_order() {
  char byte = 0;
  const auto got = ::read(0, &byte, 1);
  if (got < 0 && errno == EINTR) {
    return;
  }
  if (got <= 0) {
    orders_ended_ = true;
    if (phase_ == Phase::running) {
      told_to_stop(SIGTERM);
    }
  } else if (phase_ == Phase::running) {
    told_to_stop(byte == SIGINT || byte == SIGHUP ? byte : SIGTERM);
  }
}

std::size_t Supervision::read(SupervisedChild& child, ChildStream& stream) {
  std::array<char, 65536> buffer;
  const auto got = ::read(stream.fd.get(), buffer.data(), buffer.size());
  const auto use = [&](std::string_view text) {
    line(child, stream.destination, text);
  };
  if (got > 0) {
    stream.lines.feed(
        {buffer.data(), static_cast<std::size_t>(got)},
        Clock::now(),
        use);
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    stream.lines.flush(use);
    stream.fd.reset();
  }
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

void Supervision::line(
    SupervisedChild& child,
    int destination,
    std::string_view text) {
  if (child.spec().kind == ChildSpec::Kind::launcher) {
    if (const auto message = decode(text)) {
      record(child, destination, *message);
      return;
    }
  }
  child.remember(text);
  auto shown = options_.colour ? labelled_in_colour(child.spec(), text)
                               : labelled(child.spec(), text);
  if (options_.lends_terminal) {
    // Erases the part of the drawing that would show to the right of the line.
    shown.insert(shown.size() - 1, clear_to_end);
  }
  if (options_.is_node_launcher) {
    show(
        destination,
        encode(
            {.kind = NodeRecord::Kind::output,
             .text = shown.substr(0, shown.size() - 1)}));
  } else {
    show(destination, shown);
  }
}

void Supervision::record(
    SupervisedChild& child,
    int destination,
    const NodeRecord& record) {
  switch (record.kind) {
    case NodeRecord::Kind::output:
      show(destination, record.text + "\n");
      return;
    case NodeRecord::Kind::failure:
      if (phase_ == Phase::running) {
        child.forget_last_lines(); // those of the rank follow
        fail(child, {.what = record.text, .exit_code = record.exit_code});
      } else if (culprit_ == &child && outcome_.failure) {
        // It knows by now how the rank has ended.
        outcome_.failure->what = record.text;
        outcome_.failure->exit_code = record.exit_code;
      }
      return;
    case NodeRecord::Kind::last_line:
      child.keep_last_line(record.text);
      return;
  }
}

void Supervision::show(int destination, std::string_view text) {
  (destination == 1 ? output_ : error_).write(text);
}

/// Waits until `fd` can be written to, and meanwhile obeys requests to stop and
/// stops the job when a child fails. False when a stop was requested and its
/// time is over: output is then dropped. Where handling the end of a child
/// writes as well, it is postponed.
bool Supervision::wait_for_reader(int fd) {
  bool killed = false;
  while (true) {
    std::array<pollfd, 3> watched = {
        {{fd, POLLOUT, 0},
         {signals_.fd(), POLLIN, 0},
         {options_.is_node_launcher && !orders_ended_ ? 0 : -1, POLLIN, 0}}};
    const int timeout = poll_time_of_reader(killed);
    const auto asleep = Clock::now();
    const int ready = ::poll(watched.data(), watched.size(), timeout);
    forgive_suspension(asleep, timeout);
    if (ready < 0) {
      continue; // EINTR
    }
    if (watched[0].revents != 0) {
      return true;
    }
    if (reader_given_up_) {
      return false;
    }
    if (watched[1].revents != 0 && take_stop_signals()) {
      killed = false;
    }
    if (watched[2].revents != 0) {
      take_order();
    }
    judge();
    if (phase_ != Phase::running && Clock::now() >= deadline_) {
      if (asked_to_end_) {
        reader_given_up_ = true;
        return false;
      }
      // A rank has failed. The grace period of the other ranks does not depend
      // on our reader, who may still want to see why.
      kill_running();
      killed = true;
    }
  }
}

int Supervision::poll_time_of_reader(bool killed) const {
  if (reader_given_up_) {
    return 0;
  }
  if (phase_ == Phase::running) {
    const auto next = next_judgement();
    return next ? poll_time_until(*next) : -1;
  }
  return killed ? -1 : poll_time_until(deadline_);
}

/// Obeys requests to stop, and handles or notes the end of children. True if
/// there was a request.
bool Supervision::take_stop_signals() {
  bool told = false;
  for (const int signal : signals_.take()) {
    if (signal == SIGCHLD) {
      if (options_.is_node_launcher || options_.lends_terminal) {
        reap_due_ = true; // it may write
      } else {
        reap();
      }
    } else {
      told_to_stop(signal);
      told = true;
    }
  }
  return told;
}

/// True when stderr can be written to without waiting for its reader.
bool Supervision::can_log() const {
  pollfd ready{2, POLLOUT, 0};
  return ::poll(&ready, 1, 0) != 0;
}

void Supervision::flush_unfinished_lines(Clock::time_point now) {
  for (const auto& child : children_) {
    for (ChildStream& stream : child->streams()) {
      if (const auto due = stream.lines.due(); due && *due <= now) {
        stream.lines.flush([&](std::string_view text) {
          line(*child, stream.destination, text);
        });
      }
    }
  }
}

void Supervision::fail(SupervisedChild& child, Failure failure) {
  culprit_ = &child;
  culprit_ran_on_ =
      child.spec().kind == ChildSpec::Kind::rank && child.running();
  outcome_.failure = std::move(failure);
  if (options_.is_node_launcher) {
    tell_failure();
  } else if (any_running() && can_log()) {
    logger_.error("{}; stopping the others", outcome_.failure->what);
  }
  // A launcher that reports a failure is already stopping its own ranks.
  stop_all(SIGTERM, &child);
}

/// Tells the launcher that started this one.
void Supervision::tell_failure() {
  show(
      2,
      encode(
          {.kind = NodeRecord::Kind::failure,
           .text = outcome_.failure->what,
           .exit_code = outcome_.failure->exit_code}));
}

void Supervision::told_to_stop(int signal) {
  asked_to_end_ = asked_to_end_ || signal != SIGPIPE;
  if (phase_ == Phase::running) {
    outcome_.stop_signal = signal;
    if (can_log()) {
      logger_.info(
          "{}: stopping all ranks; they have {} s to end, and none if it comes "
          "twice",
          signal_name(signal),
          std::chrono::duration<double>(options_.grace).count());
    }
    stop_all(signal, nullptr);
  } else if (phase_ == Phase::stopping && signal != SIGPIPE) {
    deadline_ = Clock::now(); // asked twice: stop at once
  }
}

void Supervision::stop_all(int signal, const SupervisedChild* except) {
  auto grace = options_.grace;
  for (const auto& child : children_) {
    if (child->running() && child.get() != except) {
      child->ask_to_stop(signal);
    }
    if (child->spec().kind == ChildSpec::Kind::launcher) {
      // A launcher gives its own ranks that long, and then needs time to
      // report.
      grace = options_.grace + std::chrono::seconds(5);
    }
  }
  phase_ = Phase::stopping;
  deadline_ = Clock::now() + grace;
}

/// Kills the children that run, and returns who they are.
std::vector<pid_t> Supervision::kill_running() {
  std::vector<pid_t> pids;
  for (const auto& child : children_) {
    if (child->running()) {
      child->kill();
      pids.push_back(child->pid());
    }
  }
  return pids;
}

/// Blames the suspect when no other rank has failed in time.
void Supervision::end_suspicion() {
  if (suspect_ != nullptr && phase_ == Phase::running &&
      (Clock::now() >= deadline_of_suspect_ || !any_running())) {
    fail(*suspect_, suspect_->failure());
  }
}

/// Ends the job because of a stopped child, which cannot end by itself.
void Supervision::end_for_stopped(SupervisedChild& child) {
  fail(child, child.failure());
  child.kill();
}

/// Takes off the stops of children the time in which this process was suspended
/// itself.
void Supervision::forgive_suspension(Clock::time_point asleep, int timeout) {
  const auto suspended =
      suspended_time(Clock::now() - asleep, std::chrono::milliseconds(timeout));
  for (const auto& child : children_) {
    child->forgive(suspended);
  }
}

/// Blames a child whose time is over.
void Supervision::judge() {
  end_suspicion();
  const auto deadline = deadline_of_stopped(children_, options_);
  if (phase_ == Phase::running && deadline && Clock::now() >= *deadline) {
    end_for_stopped(*first_stopped(children_, options_));
  }
}

/// When judge() has something to do while the job runs.
std::optional<Clock::time_point> Supervision::next_judgement() const {
  auto next = deadline_of_stopped(children_, options_);
  if (suspect_ != nullptr && (!next || deadline_of_suspect_ < *next)) {
    next = deadline_of_suspect_;
  }
  return next;
}

void Supervision::keep_deadline() {
  judge();
  if (phase_ == Phase::running || Clock::now() < deadline_) {
    return;
  }
  const std::vector<pid_t> pids = kill_running();
  if (pids.empty()) {
    return;
  }
  if (phase_ == Phase::stopping) {
    phase_ = Phase::killing;
    deadline_ = Clock::now() + std::chrono::seconds(10);
  } else {
    phase_ = Phase::given_up;
    logger_.error(
        "processes {} do not end even by SIGKILL; is a disk or a GPU hung?",
        fmt::join(pids, ", "));
  }
}

void Supervision::sweep() {
  swept_ = true;
  const auto left = sweep_processes(
      launch_id_,
      spared_,
      Clock::now() + std::chrono::seconds(5));
  if (!left.empty() && phase_ != Phase::given_up) {
    logger_.error("processes {} cannot be killed", fmt::join(left, ", "));
  }
}

void Supervision::drain() {
  // No pipe holds more; anything that still writes was not found by the sweep.
  constexpr std::size_t most = 1 << 20;
  for (const auto& child : children_) {
    for (ChildStream& stream : child->streams()) {
      // Reads until the end of the stream, or until it is empty but kept open
      // by a process that we could not find.
      std::size_t got = 0;
      for (pollfd ready{stream.fd.get(), POLLIN, 0};
           stream.fd && got<most&& ::poll(&ready, 1, 0)> 0;) {
        got += read(*child, stream);
      }
      stream.lines.flush([&](std::string_view text) {
        line(*child, stream.destination, text);
      });
    }
  }
}

} // namespace

int Outcome::exit_code() const {
  if (failure) {
    return failure->exit_code;
  }
  return stop_signal ? 128 + *stop_signal : 0;
}

Outcome supervise(
    const std::vector<ChildSpec>& children,
    const SupervisionOptions& options,
    SignalWatch& signals,
    const Logger& logger) {
  Supervision supervision(options, signals, logger);
  supervision.start(children);
  return supervision.run();
}

} // namespace cairn::launch
