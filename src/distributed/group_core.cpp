#include "group_core.h"

#include "handshake.h"
#include "library_text.h"
#include "quiet_pipes.h"

#include <c10/core/GradMode.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>

namespace cairn::distributed {
namespace {

/// FNV-1a: the same on every machine, unlike std::hash.
std::uint64_t fingerprint(const std::vector<int>& ranks) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : fmt::format("{}", fmt::join(ranks, ","))) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return hash;
}

} // namespace

namespace detail {

std::shared_ptr<GroupCore> GroupCore::make(
    std::shared_ptr<Job> job,
    std::string name,
    std::vector<int> ranks) {
  auto core = std::make_shared<GroupCore>();
  const int self = job->environment.rank;
  core->job = std::move(job);
  core->name = std::move(name);
  core->rank = static_cast<int>(
      std::find(ranks.begin(), ranks.end(), self) - ranks.begin());
  core->ranks = std::move(ranks);
  Job& shared = *core->job;
  const std::string where =
      fmt::format("rank {}, making group \"{}\"", self, core->name);
  const auto meet_at = [&](const char* point) {
    const std::vector<int> missing = meet(
        *shared.store,
        fmt::format("group/{}/{}", core->key(), point),
        self,
        core->ranks,
        shared.start_timeout);
    if (!missing.empty()) {
      throw CommError(
          {.what = fmt::format(
               "{} of {} did not come within {:.1f} s",
               name_ranks(missing),
               core->size(),
               std::chrono::duration<double>(shared.start_timeout).count()),
           .where = where,
           .remedy = "every member of a group makes it, in the same order as "
                     "its other groups"});
    }
  };
  meet_at("start");
  try {
    const QuietPipes quiet;
    core->backend = shared.factory->make(
        {.name = core->key(),
         .rank = core->rank,
         .size = core->size(),
         .global_ranks = core->ranks,
         .store = *shared.store});
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw CommError(
        {.what = "the ranks could not be connected",
         .where = where,
         .values = library_text(error)});
  }
  // Nobody may use and leave the group while another is still connecting.
  meet_at("connected");
  core->watched = true;
  shared.watchdog->recorder().add_group(core->name, core->ranks);
  return core;
}

std::shared_ptr<GroupCore> GroupCore::alone(
    std::shared_ptr<Job> job,
    std::string name,
    int global_rank) {
  auto core = std::make_shared<GroupCore>();
  core->job = std::move(job);
  core->name = std::move(name);
  core->ranks = {global_rank};
  core->backend = make_local_group();
  return core;
}

GroupCore::~GroupCore() {
  if (!watched) {
    return;
  }
  job->watchdog->recorder().remove_group(name);
  if (job->watchdog->failed()) {
    backend->abandon();
  }
}

std::string GroupCore::key() const {
  return fmt::format("{}:{:016x}", name, fingerprint(ranks));
}

void GroupCore::rethrow_kept() {
  if (kept) {
    std::rethrow_exception(std::exchange(kept, nullptr));
  }
}

void PendingState::land() {
  if (landed) {
    return;
  }
  landed = true;
  if (operation && !landing.on_stream) {
    operation->wait();
  }
  if (operation) {
    operation->throw_if_failed();
  }
  if (landing.finish) {
    const c10::NoGradGuard no_grad;
    landing.finish();
  }
  landing = {};
}

} // namespace detail

Pending::Pending(std::unique_ptr<detail::PendingState> state)
    : state_(std::move(state)) {}

Pending::Pending(Pending&&) noexcept = default;

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this != &other) {
    finish();
    state_ = std::move(other.state_);
  }
  return *this;
}

Pending::~Pending() {
  finish();
}

void Pending::finish() noexcept {
  if (!state_) {
    return;
  }
  try {
    state_->land();
  } catch (...) {
    const std::lock_guard lock(state_->core->mutex);
    state_->core->kept = std::current_exception();
  }
  state_.reset();
}

at::Tensor Pending::wait() {
  const std::vector<at::Tensor> results = wait_all();
  return results.empty() ? at::Tensor() : results.front();
}

std::vector<at::Tensor> Pending::wait_all() {
  if (!state_) {
    throw InternalError({.what = "wait() on a Pending that was moved from"});
  }
  if (state_->operation && !state_->landing.on_stream) {
    state_->operation->wait(); // throws again when called again
  }
  state_->land();
  return state_->results;
}

bool Pending::done() const {
  return !state_ || !state_->operation || state_->operation->ended();
}

} // namespace cairn::distributed
