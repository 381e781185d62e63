#include "distributed/backends/group_core.h"

#include "distributed/backends/library_text.h"
#include "distributed/start/handshake.h"
#include "distributed/watch/quiet_pipes.h"

#include <c10/core/GradMode.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

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

std::string making(const detail::GroupCore& core) {
  return fmt::format(
      "rank {}, making group \"{}\"",
      core.job->environment.rank,
      core.name);
}

} // namespace

namespace detail {

namespace {

/// A group of which the new group is a part; unset where the members alone make
/// the group.
struct WholeGroup {
  GroupBackend* backend = nullptr;
  int part = 0;
};

/// Connects the members with the library, and says which group it was if that
/// fails.
std::unique_ptr<GroupBackend> connect(
    const GroupCore& core,
    const WholeGroup& whole,
    ConnectionWatch& watch) {
  try {
    const QuietPipes quiet;
    return core.job->factory->make(
        {.name = core.key,
         .rank = core.rank,
         .size = core.size(),
         .global_ranks = core.ranks(),
         .store = *core.job->store,
         .watch = watch,
         .whole = whole.backend,
         .part = whole.part});
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw CommError(
        {.what = watch.why_failed(),
         .where = making(core),
         .values = library_text(error)});
  }
}

/// A core that has its names and members, but is not connected.
std::shared_ptr<GroupCore> unconnected(
    std::shared_ptr<Job> job,
    std::string name,
    std::vector<int> ranks) {
  auto core = std::make_shared<GroupCore>();
  const int self = job->environment.rank;
  core->job = std::move(job);
  core->rank = static_cast<int>(
      std::find(ranks.begin(), ranks.end(), self) - ranks.begin());
  const std::string members = fmt::format("{}", fmt::join(ranks, ","));
  const std::uint64_t number =
      core->job->count_group(fmt::format("{}/{}", name, members));
  core->key = fmt::format("{}:{:016x}:{}", name, fingerprint(members), number);
  core->name =
      number == 1 ? std::move(name) : fmt::format("{}#{}", name, number);
  core->members = std::make_shared<const std::vector<int>>(std::move(ranks));
  return core;
}

/// Meets the other members at a point of the group's start.
void meet_at(
    const GroupCore& core,
    const char* point,
    const std::function<void()>& meanwhile) {
  const int self = core.job->environment.rank;
  const std::chrono::milliseconds timeout = core.job->start_timeout;
  const std::vector<int> missing = meet(
      *core.job->store,
      fmt::format("group/{}/{}", core.key, point),
      self,
      core.ranks(),
      timeout,
      meanwhile);
  if (!missing.empty()) {
    throw CommError(
        {.what = contains(missing, self)
             ? "the others gave up waiting for this rank"
             : fmt::format(
                   "{} of {} did not come within {:.1f} s",
                   name_ranks(missing),
                   core.size(),
                   std::chrono::duration<double>(timeout).count()),
         .where = making(core),
         .remedy = "every member of a group makes it, in the same order as its "
                   "other groups"});
  }
}

void set_up(GroupCore& core, const WholeGroup& whole, ConnectionWatch& watch) {
  meet_at(core, "start", {});
  core.backend = connect(core, whole, watch);
  // No member may use and leave the group while another is still connecting.
  meet_at(core, "connected", [&] { watch.check(); });
  core.watched = true;
  core.job->watchdog->recorder().add_group(core.key, core.ranks());
}

} // namespace

std::shared_ptr<GroupCore> GroupCore::make(
    std::shared_ptr<Job> job,
    std::string name,
    std::vector<int> ranks) {
  auto core = unconnected(std::move(job), std::move(name), std::move(ranks));
  ConnectionWatch watch(
      *core->job->watchdog,
      {.key = fmt::format("group/{}/connecting", core->key),
       .what = fmt::format("making group \"{}\"", core->name),
       .rank = core->job->environment.rank,
       .members = core->ranks(),
       .timeout = core->job->start_timeout});
  set_up(*core, {}, watch);
  return core;
}

std::shared_ptr<GroupCore> GroupCore::make_part(
    GroupCore& whole,
    std::string name,
    std::vector<int> ranks) {
  const int self = whole.job->environment.rank;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(whole.mutex);
    number = ++whole.partitions;
  }
  ConnectionWatch watch(
      *whole.job->watchdog,
      {.key = fmt::format("group/{}/parts/{}", whole.key, number),
       .what = fmt::format("making groups of group \"{}\"", whole.name),
       .rank = self,
       .members = whole.ranks(),
       .timeout = whole.job->start_timeout});
  if (ranks.size() == 1) {
    whole.job->factory->make_none(*whole.backend, watch);
    return alone(whole.job, std::move(name), self);
  }
  auto core = unconnected(whole.job, std::move(name), std::move(ranks));
  const int first =
      *std::min_element(core->ranks().begin(), core->ranks().end());
  set_up(*core, {whole.backend.get(), whole.place_of(first)}, watch);
  return core;
}

int GroupCore::place_of(int global_rank) const {
  return static_cast<int>(
      std::find(members->begin(), members->end(), global_rank) -
      members->begin());
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

std::string part_name(
    const GroupCore& whole,
    const std::vector<int>& ranks,
    const std::string& name) {
  if (!name.empty()) {
    return name;
  }
  return ranks.size() <= 8
      ? fmt::format("{}{{{}}}", whole.name, fmt::join(ranks, ","))
      : fmt::format("{}{{{},…,{}}}", whole.name, ranks.front(), ranks.back());
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
