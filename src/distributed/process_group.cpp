#include <cairn/distributed/process_group.h>

#include "distributed/backends/call_check.h"
#include "distributed/backends/group_core.h"
#include "distributed/backends/library_text.h"
#include "distributed/internal/agreement.h"
#include "distributed/internal/comms_log.h"
#include "distributed/internal/named_gather.h"
#include "distributed/internal/partition.h"
#include "distributed/start/handshake.h"
#include "distributed/start/timeout.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace cairn::distributed {
namespace {

using detail::GroupCore;
using detail::PendingState;
using TensorList = std::vector<at::Tensor>;
using Milliseconds = std::chrono::milliseconds;

Pending over(std::shared_ptr<GroupCore> core, TensorList results) {
  auto state = std::make_unique<PendingState>();
  state->core = std::move(core);
  state->results = std::move(results);
  return Pending(std::move(state));
}

/// Waits for all work of the group's device.
void synchronize(const GroupCore& core) {
  const auto type = core.backend->device().value_or(c10::DeviceType::CPU);
  const c10::impl::VirtualGuardImpl device(type);
  device.synchronizeDevice(device.getDevice().index());
}

/// Gives the log of calls a call that is being made.
class LoggedCall {
 public:
  LoggedCall(GroupCore& core, const CheckedCall& record)
      : core_(core), log_(core.job->log_of_calls()) {
    if (!log_ || !log_->takes(record.operation)) {
      log_.reset();
      return;
    }
    call_ = {
        .operation = record.operation,
        .site = record.site,
        .bytes = record.message,
        .sent = record.peer ? record.message : record.bytes};
    is_message_ = record.peer.has_value();
    // The host learns of the end of NCCL's calls much later.
    on_stream_ = core.backend->name() == "nccl";
    if (on_stream_ && !is_message_) {
      synchronize(core_);
      begin_ = std::chrono::steady_clock::now();
    }
  }

  /// Called before the call is handed to the backend.
  void follow(Operation& operation) {
    if (log_ && !on_stream_) {
      operation.on_success(
          [log = log_, call = call_](Operation::Clock::duration time) mutable {
            call.seconds = std::chrono::duration<double>(time).count();
            log->add(call);
          });
    }
  }

  /// Called when the backend has taken the call.
  void launched(Landing& landing) {
    if (!log_ || !on_stream_ || landing.recorded) {
      return;
    }
    if (!is_message_) {
      if (const auto finish = std::exchange(landing.finish, nullptr)) {
        finish();
      }
      synchronize(core_);
      call_.seconds = std::chrono::duration<double>(
                          std::chrono::steady_clock::now() - begin_)
                          .count();
    }
    log_->add(call_);
  }

 private:
  GroupCore& core_;
  std::shared_ptr<CommsLog> log_;
  CommsLog::Call call_;
  bool is_message_ = false;
  bool on_stream_ = false;
  std::chrono::steady_clock::time_point begin_;
};

/// Numbers the call, has it recorded, and hands it to the backend.
template <typename Launch>
Pending start(
    const std::shared_ptr<GroupCore>& core,
    CheckedCall record,
    TensorList results,
    Launch launch,
    std::optional<Milliseconds> timeout = {}) {
  const c10::NoGradGuard no_grad;
  auto state = std::make_unique<PendingState>();
  state->core = core;
  state->results = std::move(results);
  const std::lock_guard lock(core->mutex);
  core->rethrow_kept();
  if (!core->watched) {
    state->landing = launch(nullptr);
    return Pending(std::move(state));
  }
  Watchdog& watchdog = *core->job->watchdog;
  record.sequence = record.peer
      ? ++core->messages[{record.operation, *record.peer}]
      : ++core->sequence;
  LoggedCall logged(*core, record);
  state->operation = watchdog.begin(std::move(record), core->members, timeout);
  Operation& operation = *state->operation;
  logged.follow(operation);
  try {
    state->landing = launch(state->operation);
    logged.launched(state->landing);
    watchdog.recorder().running(operation.record().id);
    if (state->landing.recorded) {
      core->job->recorded(core, operation.record());
    }
  } catch (const std::exception& error) {
    // The others wait for this rank, so it tells them before it throws.
    operation.expect(1);
    operation.part_ended(library_text(error));
    operation.wait();
    throw;
  }
  return Pending(std::move(state));
}

TensorList flat(const TensorList& tensors) {
  TensorList result;
  for (const at::Tensor& x : tensors) {
    result.push_back(x.view({-1}));
  }
  return result;
}

TensorList without_empty(const TensorList& tensors) {
  TensorList result;
  for (const at::Tensor& x : tensors) {
    if (x.numel() > 0) {
      result.push_back(x);
    }
  }
  return result;
}

/// An empty tensor with the shape of `x`, but another number of rows.
at::Tensor empty_rows(const at::Tensor& x, std::int64_t rows) {
  std::vector<std::int64_t> shape = x.sizes().vec();
  if (shape.empty()) {
    shape.push_back(rows);
  } else {
    shape[0] = rows;
  }
  return at::empty(shape, x.options().requires_grad(false));
}

std::int64_t rows_of(const at::Tensor& x) {
  return x.dim() == 0 ? 1 : x.size(0);
}

/// Converts counts of rows into counts of elements.
GroupBackend::Counts elements(
    const ProcessGroup::Counts& rows,
    const at::Tensor& x) {
  std::int64_t width = 1;
  for (std::int64_t dim = 1; dim < x.dim(); ++dim) {
    width *= x.size(dim);
  }
  GroupBackend::Counts result = rows;
  for (std::int64_t& count : result) {
    count *= width;
  }
  return result;
}

std::int64_t total(const ProcessGroup::Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// Bytes of the rows that do not stay on this rank.
std::int64_t bytes_to_others(
    const at::Tensor& x,
    const ProcessGroup::Counts& rows,
    int rank) {
  const std::int64_t all = total(rows);
  const std::int64_t others = all - rows[static_cast<std::size_t>(rank)];
  return all == 0 ? 0 : static_cast<std::int64_t>(x.nbytes()) / all * others;
}

TensorList list_of(ProcessGroup::Tensors xs) {
  return {xs.begin(), xs.end()};
}

} // namespace

ProcessGroup::ProcessGroup()
    : ProcessGroup(GroupCore::alone(nullptr, "alone", 0)) {}

ProcessGroup::ProcessGroup(std::shared_ptr<GroupCore> core)
    : core_(std::move(core)) {}

int ProcessGroup::rank() const {
  return core_->rank;
}

int ProcessGroup::size() const {
  return core_->size();
}

const std::string& ProcessGroup::name() const {
  return core_->name;
}

std::string_view ProcessGroup::backend() const {
  return core_->backend->name();
}

const std::vector<int>& ProcessGroup::global_ranks() const {
  return core_->ranks();
}

Pending ProcessGroup::all_reduce(at::Tensor x, ReduceOp op, Site site) const {
  return all_reduce(Tensors(&x, 1), op, site);
}

Pending ProcessGroup::all_reduce(Tensors xs, ReduceOp op, Site site) const {
  const CallCheck check(*core_, "all_reduce", site);
  const TensorList tensors = list_of(xs);
  check.tensors(tensors);
  check.reducible(tensors, op);
  const TensorList moving = flat(without_empty(tensors));
  if (moving.empty()) {
    return over(core_, tensors);
  }
  return start(
      core_,
      check.record(tensors, reduce_op_name(op)),
      tensors,
      [&](auto operation) {
        return core_->backend->all_reduce(std::move(operation), moving, op);
      });
}

Pending ProcessGroup::all_gather(at::Tensor x, Site site) const {
  return all_gather(Tensors(&x, 1), site);
}

Pending ProcessGroup::all_gather(Tensors xs, Site site) const {
  const CallCheck check(*core_, "all_gather", site);
  const TensorList inputs = list_of(xs);
  check.tensors(inputs);
  TensorList outputs;
  for (const at::Tensor& x : inputs) {
    outputs.push_back(
        core_->watched     ? empty_rows(x, rows_of(x) * size())
            : x.dim() == 0 ? x.view({1})
                           : x);
  }
  if (without_empty(inputs).empty()) {
    return over(core_, outputs);
  }
  return start(core_, check.record(inputs, ""), outputs, [&](auto operation) {
    return core_->backend->all_gather(
        std::move(operation),
        flat(without_empty(outputs)),
        flat(without_empty(inputs)));
  });
}

Pending ProcessGroup::all_gather_into(
    at::Tensor output,
    at::Tensor x,
    Site site) const {
  return all_gather_named(*this, std::move(output), std::move(x), "", site);
}

Pending all_gather_named(
    const ProcessGroup& group,
    at::Tensor output,
    at::Tensor x,
    std::string name,
    std::source_location site) {
  const std::shared_ptr<GroupCore>& core = Agreement::core_of(group);
  const CallCheck check(*core, "all_gather", site);
  check.tensors({output, x});
  check.shares(output, x, "output", "x");
  if (x.numel() == 0) {
    return over(core, {output});
  }
  return start(core, check.record({x}, name), {output}, [&](auto operation) {
    return core->backend->all_gather(
        std::move(operation),
        flat({output}),
        flat({x}));
  });
}

Pending ProcessGroup::all_gather(at::Tensor x, const Counts& counts, Site site)
    const {
  const CallCheck check(*core_, "all_gather", site);
  check.tensors({x});
  check.counts(counts, "counts");
  check.rows(x, counts[static_cast<std::size_t>(rank())], "counts[rank]");
  const at::Tensor output = core_->watched ? empty_rows(x, total(counts)) : x;
  if (output.numel() == 0) {
    return over(core_, {output});
  }
  return start(
      core_,
      check.record({x}, "", counts),
      {output},
      [&](auto operation) {
        return core_->backend->all_gather_uneven(
            std::move(operation),
            output.view({-1}),
            x.view({-1}),
            elements(counts, x));
      });
}

Pending ProcessGroup::reduce_scatter(at::Tensor x, ReduceOp op, Site site)
    const {
  return reduce_scatter(Tensors(&x, 1), op, site);
}

Pending ProcessGroup::reduce_scatter(Tensors xs, ReduceOp op, Site site) const {
  const CallCheck check(*core_, "reduce_scatter", site);
  const TensorList inputs = list_of(xs);
  check.tensors(inputs);
  check.reducible(inputs, op);
  TensorList outputs;
  for (const at::Tensor& x : inputs) {
    check.divisible(x);
    outputs.push_back(core_->watched ? empty_rows(x, x.size(0) / size()) : x);
  }
  if (without_empty(inputs).empty()) {
    return over(core_, outputs);
  }
  return start(
      core_,
      check.record(inputs, reduce_op_name(op)),
      outputs,
      [&](auto operation) {
        return core_->backend->reduce_scatter(
            std::move(operation),
            flat(without_empty(outputs)),
            flat(without_empty(inputs)),
            op);
      });
}

Pending ProcessGroup::reduce_scatter_into(
    at::Tensor output,
    at::Tensor x,
    ReduceOp op,
    Site site) const {
  const CallCheck check(*core_, "reduce_scatter", site);
  check.tensors({output, x});
  check.reducible({x}, op);
  check.shares(x, output, "x", "output");
  if (x.numel() == 0) {
    return over(core_, {output});
  }
  return start(
      core_,
      check.record({x}, reduce_op_name(op)),
      {output},
      [&](auto operation) {
        return core_->backend->reduce_scatter(
            std::move(operation),
            flat({output}),
            flat({x}),
            op);
      });
}

Pending ProcessGroup::reduce_scatter(
    at::Tensor x,
    const Counts& counts,
    ReduceOp op,
    Site site) const {
  const CallCheck check(*core_, "reduce_scatter", site);
  check.tensors({x});
  check.reducible({x}, op);
  check.counts(counts, "counts");
  check.rows(x, total(counts), "the sum of counts");
  const at::Tensor output = core_->watched
      ? empty_rows(x, counts[static_cast<std::size_t>(rank())])
      : x;
  if (x.numel() == 0) {
    return over(core_, {output});
  }
  return start(
      core_,
      check.record({x}, reduce_op_name(op), counts),
      {output},
      [&](auto operation) {
        return core_->backend->reduce_scatter_uneven(
            std::move(operation),
            output.view({-1}),
            x.view({-1}),
            elements(counts, x),
            op);
      });
}

Pending ProcessGroup::broadcast(at::Tensor x, int root, Site site) const {
  return broadcast(Tensors(&x, 1), root, site);
}

Pending ProcessGroup::broadcast(Tensors xs, int root, Site site) const {
  const CallCheck check(*core_, "broadcast", site);
  const TensorList tensors = list_of(xs);
  check.tensors(tensors);
  check.member(root, "root");
  const TensorList moving = flat(without_empty(tensors));
  if (moving.empty()) {
    return over(core_, tensors);
  }
  return start(
      core_,
      check.record(tensors, fmt::format("root {}", root)),
      tensors,
      [&](auto operation) {
        return core_->backend->broadcast(std::move(operation), moving, root);
      });
}

Pending ProcessGroup::all_to_all(at::Tensor x, Site site) const {
  const CallCheck check(*core_, "all_to_all", site);
  check.tensors({x});
  check.divisible(x);
  const at::Tensor output = core_->watched ? empty_rows(x, rows_of(x)) : x;
  if (x.numel() == 0) {
    return over(core_, {output});
  }
  return start(core_, check.record({x}, ""), {output}, [&](auto operation) {
    const GroupBackend::Counts even(
        static_cast<std::size_t>(size()),
        x.numel() / size());
    return core_->backend->all_to_all(
        std::move(operation),
        output.view({-1}),
        x.view({-1}),
        even,
        even);
  });
}

Pending ProcessGroup::all_to_all(
    at::Tensor x,
    const Counts& send_counts,
    const Counts& receive_counts,
    Site site) const {
  const CallCheck check(*core_, "all_to_all", site);
  check.tensors({x});
  check.counts(send_counts, "send_counts");
  check.counts(receive_counts, "receive_counts");
  check.rows(x, total(send_counts), "the sum of send_counts");
  if (!core_->watched && send_counts != receive_counts) {
    check.refuse("a rank receives from itself what it sends");
  }
  const at::Tensor output =
      core_->watched ? empty_rows(x, total(receive_counts)) : x;
  CheckedCall record = check.record({x}, "");
  record.sizes_vary = true;
  record.bytes = bytes_to_others(x, send_counts, rank());
  return start(core_, std::move(record), {output}, [&](auto operation) {
    return core_->backend->all_to_all(
        std::move(operation),
        output.view({-1}),
        x.view({-1}),
        elements(receive_counts, x),
        elements(send_counts, x));
  });
}

Pending ProcessGroup::send(at::Tensor x, int to, Site site) const {
  const CallCheck check(*core_, "send", site);
  check.tensors({x});
  check.other_member(to, "to");
  if (x.numel() == 0) {
    return over(core_, {x});
  }
  CheckedCall record = check.record({x}, "");
  record.peer = core_->ranks()[static_cast<std::size_t>(to)];
  return start(core_, std::move(record), {x}, [&](auto operation) {
    return core_->backend->send(std::move(operation), x.view({-1}), to);
  });
}

Pending ProcessGroup::recv(at::Tensor x, int from, Site site) const {
  const CallCheck check(*core_, "recv", site);
  check.tensors({x});
  check.other_member(from, "from");
  if (x.numel() == 0) {
    return over(core_, {x});
  }
  CheckedCall record = check.record({x}, "");
  record.peer = core_->ranks()[static_cast<std::size_t>(from)];
  return start(core_, std::move(record), {x}, [&](auto operation) {
    return core_->backend->recv(std::move(operation), x.view({-1}), from);
  });
}

namespace {

void meet_at_barrier(
    const std::shared_ptr<GroupCore>& core,
    std::optional<Milliseconds> timeout,
    std::source_location site) {
  const CallCheck check(*core, "barrier", site);
  // The library's own limit is far above ours, because the watchdog is to speak
  // first.
  const Milliseconds limit =
      bounded(timeout.value_or(Milliseconds(0))) + std::chrono::hours(24);
  start(
      core,
      check.record({}, ""),
      {},
      [&](auto operation) {
        return core->backend->barrier(std::move(operation), limit);
      },
      timeout)
      .wait();
}

} // namespace

void ProcessGroup::barrier(Milliseconds timeout, Site site) const {
  meet_at_barrier(core_, timeout, site);
}

void ProcessGroup::barrier(Site site) const {
  meet_at_barrier(core_, std::nullopt, site);
}

void ProcessGroup::require_all(
    const std::string& what,
    Milliseconds timeout,
    Site site) const {
  if (!core_->watched) {
    return;
  }
  const std::lock_guard lock(core_->mutex);
  core_->rethrow_kept();
  core_->job->watchdog->throw_if_failed();
  if (!core_->meeting_store) {
    core_->meeting_store = core_->job->store->clone();
  }
  Store& store = *core_->meeting_store;
  const std::string key = fmt::format(
      "require/{}/{}/{}",
      core_->key,
      what,
      ++core_->meetings[what]);
  const int self = core_->job->environment.rank;
  const std::vector<int> missing =
      meet(store, key, self, core_->ranks(), bounded(timeout));
  if (!missing.empty()) {
    throw CommError(
        {.what = contains(missing, self)
             ? fmt::format(
                   "the others gave up waiting for this rank to call {}",
                   what)
             : fmt::format(
                   "{} did not call {} within {:.1f} s",
                   name_ranks(missing),
                   what,
                   std::chrono::duration<double>(timeout).count()),
         .where = fmt::format(
             "rank {}, {} on group \"{}\" at {}",
             self,
             what,
             core_->name,
             site_text(site)),
         .remedy =
             fmt::format("all {} ranks of the group must call it", size())});
  }
  // All members have come here, so nobody still looks at the place where they
  // met before.
  const std::string before = std::exchange(core_->last_meeting, key);
  if (rank() == 0 && !before.empty()) {
    forget_meeting(store, before, core_->ranks());
  }
}

void ProcessGroup::fail(
    const std::string& what,
    const std::string& why,
    Site site) const noexcept {
  if (!core_->watched) {
    return;
  }
  try {
    // The record has this rank as its only member, so that no other rank is
    // blamed.
    const auto alone = std::make_shared<const std::vector<int>>(
        1,
        core_->job->environment.rank);
    const auto operation = core_->job->watchdog->begin(
        CallCheck(*core_, what, site).record({}, ""),
        alone);
    operation->part_ended(why.empty() ? "no reason given" : why);
    operation->wait();
  } catch (const std::exception&) {
    // This is expected: the job has failed, now or before.
  }
}

ProcessGroup ProcessGroup::subgroup(
    const std::vector<int>& ranks,
    const std::string& name) const {
  std::vector<int> global =
      CallCheck(*core_, "subgroup", Site::current()).own_part(ranks);
  std::string unique = detail::part_name(*core_, ranks, name);
  if (ranks.size() == 1) {
    return ProcessGroup(
        GroupCore::alone(core_->job, std::move(unique), global.front()));
  }
  return ProcessGroup(
      GroupCore::make(core_->job, std::move(unique), std::move(global)));
}

ProcessGroup ProcessGroup::split(std::int64_t color, Site site) const {
  const at::Tensor mine = at::full(
      {1},
      color,
      at::TensorOptions().dtype(at::kLong).device(
          core_->backend->device().value_or(c10::DeviceType::CPU)));
  const at::Tensor colors = all_gather(mine, site).wait().cpu();
  std::vector<int> members;
  for (int member = 0; member < size(); ++member) {
    if (colors.data_ptr<std::int64_t>()[member] == color) {
      members.push_back(member);
    }
  }
  return partition(*this, members, "");
}

} // namespace cairn::distributed
