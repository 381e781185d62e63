#include "distributed/backends/group_core.h"

#include "distributed/backends/library_text.h"
#include "distributed/start/handshake.h"
#include "distributed/watch/quiet_pipes.h"

#include <c10/core/GradMode.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>

namespace cairn::distributed {
namespace {

/// FNV-1a hash: the same on every machine, unlike std::hash.
std::uint64_t fingerprint(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
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
  Job& shared = *core->job;
  core->rank = static_cast<int>(
      std::find(ranks.begin(), ranks.end(), self) - ranks.begin());
  const std::string members = fmt::format("{}", fmt::join(ranks, ","));
  const std::uint64_t number =
      shared.count_group(fmt::format("{}/{}", name, members));
  core->key = fmt::format("{}:{:016x}:{}", name, fingerprint(members), number);
  core->name =
      number == 1 ? std::move(name) : fmt::format("{}#{}", name, number);
  core->members = std::make_shared<const std::vector<int>>(std::move(ranks));
  const std::string where =
      fmt::format("rank {}, making group \"{}\"", self, core->name);
  const auto meet_at = [&](const char* point) {
    const std::vector<int> missing = meet(
        *shared.store,
        fmt::format("group/{}/{}", core->key, point),
        self,
        core->ranks(),
        shared.start_timeout);
    if (!missing.empty()) {
      throw CommError(
          {.what = contains(missing, self)
               ? "the others gave up waiting for this rank"
               : fmt::format(
                     "{} of {} did not come within {:.1f} s",
                     name_ranks(missing),
                     core->size(),
                     std::chrono::duration<double>(shared.start_timeout)
                         .count()),
           .where = where,
           .remedy = "every member of a group makes it, in the same order as "
                     "its other groups"});
    }
  };
  meet_at("start");
  try {
    const QuietPipes quiet;
    core->backend = shared.factory->make(
        {.name = core->key,
         .rank = core->rank,
         .size = core->size(),
         .global_ranks = core->ranks(),
         .store = *shared.store});
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw CommError(
        {.what = "the ranks could not be connected",
         .where = where,
         .values = library_text(error)});
  }
  // No member may use and leave the group while another is still connecting.
  meet_at("connected");
  core->watched = true;
  shared.watchdog->recorder().add_group(core->key, core->ranks());
  return core;
}

std::shared_ptr<GroupCore> GroupCore::alone(
    std::shared_ptr<Job> job,
    std::string name,
    int global_rank) {
  auto core = std::make_shared<GroupCore>();
  core->job = std::move(job);
  core->name = std::move(name);
  core->members = std::make_shared<const std::vector<int>>(1, global_rank);
  core->backend = make_local_group();
  return core;
}

GroupCore::~GroupCore() {
  if (!watched) {
    return;
  }
  job->watchdog->recorder().remove_group(key);
  if (job->watchdog->failed()) {
    backend->abandon();
  }
}

void GroupCore::rethrow_kept() {
  if (kept) {
    std::rethrow_exception(std::exchange(kept, nullptr));
  }
}

void PendingState::land() {
  if (operation && !landing.on_stream) {
    if (landing.help) {
      landing.help();
    }
    operation->wait();
  }
  if (operation) {
    operation->throw_if_failed();
  }
  if (landing_error) {
    std::rethrow_exception(landing_error);
  }
  try {
    if (const auto finish = std::exchange(landing.finish, nullptr)) {
      const c10::NoGradGuard no_grad;
      finish();
    }
    // The caller may have been blocked in finish(), on a GPU, until the call
    // was aborted.
    if (operation && landing.on_stream) {
      operation->throw_if_failed();
    }
  } catch (...) {
    landing_error = std::current_exception();
    throw;
  }
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
    if (!state_->waited) {
      state_->land();
    }
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
  state_->waited = true;
  state_->land();
  return state_->results;
}

bool Pending::done() const {
  return !state_ || !state_->operation || state_->operation->ended();
}

} // namespace cairn::distributed
