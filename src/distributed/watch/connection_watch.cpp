#include "distributed/watch/connection_watch.h"

#include "distributed/start/handshake.h"

#include <cairn/base/error.h>
#include <fmt/core.h>

#include <utility>

namespace cairn::distributed {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds between_looks = std::chrono::milliseconds(500);
/// Time from one question to all members to the next.
constexpr milliseconds between_rounds = std::chrono::seconds(5);

} // namespace

ConnectionWatch::ConnectionWatch(Watchdog& watchdog, Options options)
    : watchdog_(watchdog),
      store_(watchdog.store()),
      options_(std::move(options)),
      next_look_(begin_ + between_looks) {}

std::string ConnectionWatch::place(const std::string& name) const {
  return options_.key + "/" + name;
}

void ConnectionWatch::come() {
  store_.set(place(std::to_string(options_.rank)), "");
}

void ConnectionWatch::check() {
  const auto now = Clock::now();
  if (now < next_look_) {
    return;
  }
  next_look_ = now + between_looks;
  watchdog_.throw_if_failed();
  std::string why;
  try {
    why = look(now - begin_);
  } catch (const CommError&) {
    why = watchdog_.store_is_gone();
  }
  if (!why.empty()) {
    give_up(why);
  }
}

std::string ConnectionWatch::look(Clock::duration waited) {
  if (const auto why = store_.get(place("given up"))) {
    return *why;
  }
  std::string why;
  if (waited > options_.timeout) {
    why = time_is_over();
  } else if (waited >= options_.patience + rounds_ * between_rounds) {
    const std::string round = place(fmt::format("round {}", ++rounds_));
    const std::string self = std::to_string(options_.rank);
    // The first rank of a round asks for all. If that rank dies meanwhile,
    // another one is the first of the next round.
    if (store_.set_once(round, self) == self) {
      why = ask_members();
    }
  }
  return why.empty() ? why : store_.set_once(place("given up"), why);
}

std::string ConnectionWatch::why_failed() {
  try {
    const std::string self = std::to_string(options_.rank);
    const std::string verdict = place("given up");
    // One rank asks for all, as long as it lives.
    if (store_.set_once(place("asks"), self) != self &&
        store_.wait({verdict}, 4 * watchdog_.grace())) {
      return store_.get(verdict).value_or("");
    }
    const std::string why = ask_members();
    return store_.set_once(
        verdict,
        why.empty() ? "the ranks could not be connected" : why);
  } catch (const CommError&) {
    return watchdog_.store_is_gone();
  }
}

std::string ConnectionWatch::ask_members() const {
  // A rank that is starting CUDA may answer late.
  const auto grace = 3 * watchdog_.grace();
  const std::vector<int> silent =
      silent_ranks(store_, options_.rank, options_.members, grace);
  return silent.empty() ? ""
                        : fmt::format(
                              "{} {} not answer",
                              name_ranks(silent),
                              silent.size() == 1 ? "does" : "do");
}

std::string ConnectionWatch::time_is_over() const {
  const double seconds =
      std::chrono::duration<double>(options_.timeout).count();
  std::vector<int> missing;
  for (const int member : options_.members) {
    if (!store_.get(place(std::to_string(member)))) {
      missing.push_back(member);
    }
  }
  return missing.empty()
      ? fmt::format("the ranks were not connected within {:.1f} s", seconds)
      : fmt::format(
            "{} did not come within {:.1f} s",
            name_ranks(missing),
            seconds);
}

void ConnectionWatch::give_up(const std::string& why) const {
  throw CommError(
      {.what = why,
       .where = fmt::format("{}, rank {}", options_.what, options_.rank),
       .remedy = "look at the output of the ranks that are named: they died, "
                 "hang, or cannot be reached"});
}

} // namespace cairn::distributed
