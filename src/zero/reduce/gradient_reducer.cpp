#include "zero/internal/gradient_reducer.h"

#include "kernels/internal/add_rows.h"
#include "kernels/internal/cuda/cuda.h"
#include "kernels/internal/gradient_place.h"
#include "zero/internal/host_memory.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace cairn::zero {

namespace {

/// Whole transient buckets that may wait for the wire at a time.
constexpr int most_in_flight = 2;

/// Type of whole buckets.
at::ScalarType gradient_type(const GradientReducer::Options& options) {
  return options.transient ? options.communicate : options.accumulate;
}

} // namespace

struct GradientReducer::Hook : kernels::GradientPlace {
  using OfProgram = std::unique_ptr<torch::autograd::PostAccumulateGradHook>;

  Hook(GradientReducer& owner, int number, OfProgram within = nullptr)
      : reducer(owner), parameter(number), of_program(std::move(within)) {}
  void operator()(const at::Tensor& tensor) override {
    if (of_program) {
      (*of_program)(tensor);
    }
    reducer.take(parameter);
  }
  at::Tensor take() override { return reducer.lend(parameter, false).memory; }
  Sum take_sum() override { return reducer.lend(parameter, true); }
  void arrived() override { reducer.arrived(parameter); }
  bool add_rows(const at::Tensor& ids, const at::Tensor& rows) override {
    return reducer.keep_rows(parameter, {ids, rows});
  }

  GradientReducer& reducer;
  int parameter;
  OfProgram of_program; ///< null: none
};

GradientReducer::GradientReducer(
    const Layout& layout,
    std::vector<at::Tensor> parameters,
    RankGroups groups,
    const Options& options)
    : layout_(&layout),
      groups_(std::move(groups)),
      options_(options),
      copies_(parameters.at(0).device()) {
  const bool alone = groups_.all.size() == 1;
  if (alone && !options_.rest_on_cpu) {
    // There is nothing to reduce and no rank to send to: gradients are kept.
    options_.shards = false;
    options_.transient = false;
    options_.overlap = false;
  }
  if (alone && !options_.transient) {
    options_.communicate = options_.accumulate; // nobody else to talk to
  }
  for (const Bucket& bucket : layout.buckets()) {
    if (bucket.trainable) {
      states_.emplace_back();
    }
  }
  for (int i = 0; i < static_cast<int>(parameters.size()); ++i) {
    at::Tensor& tensor = parameters[i];
    if (layout.parameters()[i].trainable) {
      tensor.mutable_grad().reset();
    }
    parameters_.push_back({.tensor = std::move(tensor)});
  }
  keep_hooks();
}

void GradientReducer::InFlight::wait() {
  if (pending) {
    pending->wait();
  }
  if (packed) {
    received = packed->finish();
    packed.reset();
  }
}

GradientReducer::~GradientReducer() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!layout_->parameters()[i].trainable) {
      continue;
    }
    const at::Tensor& tensor = parameters_[i].tensor;
    auto* ours = dynamic_cast<Hook*>(
        torch::autograd::impl::post_acc_grad_hooks(tensor).get());
    if (ours != nullptr && &ours->reducer == this) {
      torch::autograd::impl::set_post_acc_grad_hooks(
          tensor,
          std::move(ours->of_program));
    }
  }
}

/// Returns true when the parameter's hook was another's.
bool GradientReducer::keep_hook(int parameter) {
  Parameter& entry = parameters_[parameter];
  auto& there = torch::autograd::impl::post_acc_grad_hooks(entry.tensor);
  auto* const ours = dynamic_cast<Hook*>(there.get());
  if (ours != nullptr && &ours->reducer == this) {
    return false;
  }
  entry.of_program = there != nullptr;
  torch::autograd::impl::set_post_acc_grad_hooks(
      entry.tensor,
      std::make_unique<Hook>(*this, parameter, std::move(there)));
  return true;
}

void GradientReducer::keep_hooks() {
  for (int i = 0; i < static_cast<int>(parameters_.size()); ++i) {
    if (layout_->parameters()[i].trainable) {
      keep_hook(i);
    }
  }
}

/// Takes gradients whose hooks the program has replaced while the pass ran.
void GradientReducer::take_missed() {
  for (int i = 0; i < static_cast<int>(parameters_.size()); ++i) {
    if (layout_->parameters()[i].trainable && keep_hook(i) &&
        parameters_[i].tensor.grad().defined()) {
      take(i);
    }
  }
}

void GradientReducer::begin(bool last) {
  keep_hooks();
  const std::lock_guard lock(mutex_);
  last_ = last;
  reset_pass();
  in_pass_ = true;
  reducing_ = last || options_.transient;
  guessed_ |= reducing_ && !learnt_[kind()];
}

void GradientReducer::reset_pass() {
  next_ = 0;
  for (State& state : states_) {
    state.missing = 0;
    state.launched = false;
  }
  for (int i = 0; i < static_cast<int>(parameters_.size()); ++i) {
    parameters_[i].expected = parameters_[i].uses[kind()];
    parameters_[i].seen = 0;
    parameters_[i].lent = false;
    parameters_[i].rows.clear();
    if (layout_->parameters()[i].trainable && parameters_[i].expected != 0) {
      ++states_[layout_->bucket_of(i)].missing;
    }
  }
}

bool GradientReducer::begins_pass(int parameter) {
  if (options_.outside_pass) {
    return options_.outside_pass();
  }
  throw UsageError(
      {.what = "a gradient appeared outside of engine.backward(loss)",
       .where = layout_->parameters()[parameter].name,
       .remedy = "call engine.backward(loss) instead of loss.backward()"});
}

/// Lends the gradient's place in the bucket, to be written directly. Only while
/// the bucket waits for this gradient: it then cannot leave in between. Unless
/// the place is `to_add_to`, it must be empty and of the parameter's type.
kernels::GradientPlace::Sum GradientReducer::lend(
    int parameter,
    bool to_add_to) {
  const torch::autograd::AutoGradMode no_grad(false);
  const std::lock_guard lock(mutex_);
  Parameter& entry = parameters_[parameter];
  State& state = states_[layout_->bucket_of(parameter)];
  const bool fits = to_add_to ||
      (!entry.written && gradient_type(options_) == entry.tensor.scalar_type());
  if (!in_pass_ || entry.of_program || entry.lent || !fits || state.launched ||
      entry.seen >= entry.expected || entry.tensor.grad().defined()) {
    return {};
  }
  entry.lent = true;
  return {view_of(state, parameter), entry.written};
}

/// Takes a gradient that was written into its lent place.
void GradientReducer::arrived(int parameter) {
  const torch::autograd::AutoGradMode no_grad(false);
  const std::lock_guard lock(mutex_);
  parameters_[parameter].written = true;
  add_kept_rows(states_[layout_->bucket_of(parameter)], parameter);
  count_arrival(parameter);
}

/// Keeps rows only for a gradient whose place is lent, which is sure to come.
bool GradientReducer::keep_rows(int parameter, Rows rows) {
  const std::lock_guard lock(mutex_);
  Parameter& entry = parameters_[parameter];
  if (!in_pass_ || !entry.lent || !entry.tensor.is_cpu() ||
      entry.tensor.scalar_type() != at::kFloat) {
    return false;
  }
  entry.rows.push_back(std::move(rows));
  return true;
}

void GradientReducer::add_kept_rows(State& state, int parameter) {
  Parameter& entry = parameters_[parameter];
  entry.lent = false;
  if (entry.rows.empty()) {
    return;
  }
  const at::Tensor view = view_of(state, parameter);
  for (const Rows& some : std::exchange(entry.rows, {})) {
    kernels::add_rows(view, some.ids, some.values);
  }
}

void GradientReducer::take(int parameter) {
  if (!in_pass_ && !begins_pass(parameter)) {
    return;
  }
  const torch::autograd::AutoGradMode no_grad(false);
  const std::lock_guard lock(mutex_);
  Parameter& entry = parameters_[parameter];
  at::Tensor gradient = entry.tensor.grad();
  entry.tensor.mutable_grad().reset();
  if (!gradient.defined()) {
    return;
  }
  if (gradient.is_sparse()) {
    gradient = gradient.to_dense();
  }
  State& state = states_[layout_->bucket_of(parameter)];
  if (state.launched) {
    add_late(state, parameter, gradient);
  } else {
    add(state, parameter, gradient);
    add_kept_rows(state, parameter);
  }
  count_arrival(parameter);
}

void GradientReducer::count_arrival(int parameter) {
  Parameter& entry = parameters_[parameter];
  ++entry.seen;
  if (entry.seen == entry.expected) {
    --states_[layout_->bucket_of(parameter)].missing;
    if (reducing_ && options_.overlap) {
      launch_ready(false);
    }
  }
}

/// The place of a parameter's gradient in the bucket.
at::Tensor GradientReducer::view_of(State& state, int parameter) {
  const at::Tensor& tensor = parameters_[parameter].tensor;
  if (!state.whole.defined()) {
    const distributed::BufferScope registered(options_.buffers.get());
    state.whole = at::empty(
        {layout_->buckets()[layout_->bucket_of(parameter)].elements},
        tensor.options().dtype(gradient_type(options_)));
  }
  const Placement& place = layout_->placement_of(parameter);
  return state.whole.narrow(0, place.offset, place.elements)
      .view(tensor.sizes());
}

void GradientReducer::add(
    State& state,
    int parameter,
    const at::Tensor& gradient) {
  const at::Tensor view = view_of(state, parameter);
  Parameter& entry = parameters_[parameter];
  const bool in_place = gradient.const_data_ptr() == view.const_data_ptr();
  if (!in_place && entry.written) {
    view.add_(gradient);
  } else if (!in_place) {
    view.copy_(gradient);
  }
  entry.written = true;
}

void GradientReducer::count_repeated(bool last) {
  const std::lock_guard lock(mutex_);
  last_ = last;
  for (int b = 0; b < static_cast<int>(states_.size()); ++b) {
    State& state = states_[b];
    if (options_.transient) {
      state.reduced = state.kept;
    } else if (options_.shards && last) {
      const Range range = mine(b);
      state.reduced = state.whole.narrow(0, range.begin, range.size());
    }
  }
  if (options_.transient) {
    return;
  }
  for (int i = 0; i < static_cast<int>(parameters_.size()); ++i) {
    parameters_[i].written |=
        layout_->parameters()[i].trainable && parameters_[i].uses[kind()] > 0;
  }
}

Range GradientReducer::mine(int bucket) const {
  return layout_->shard(
      bucket,
      groups_.sharers(layout_->buckets()[bucket]).rank());
}

/// True when the device records this pass instead of running it.
bool GradientReducer::is_recorded() const {
  if (parameters_.empty()) {
    return false;
  }
  const at::Device device = parameters_[0].tensor.device();
  return device.is_cuda() && kernels::cuda::is_recording(device.index());
}

/// Takes from a pass how often gradients appear in passes of its kind. Where
/// that is promised to stay, a gradient that is missing this time may come
/// again the next time.
void GradientReducer::learn_uses() {
  const std::size_t other = 1 - kind();
  const bool stays = std::exchange(learnt_[kind()], true) && options_.same_use;
  for (Parameter& parameter : parameters_) {
    int& uses = parameter.uses[kind()];
    uses = stays ? std::max(uses, parameter.seen) : parameter.seen;
    if (!learnt_[other]) {
      parameter.uses[other] = parameter.seen;
    }
  }
}

/// Where there is no second round: all ranks would have to agree on it while a
/// recorded pass runs, or before every update.
void GradientReducer::refuse_latecomers(bool recorded) const {
  for (std::size_t b = 0; b < states_.size(); ++b) {
    if (states_[b].latecomers.defined()) {
      const int first = layout_->buckets()[b].members.front().parameter;
      throw UsageError(
          {.what = recorded
               ? "gradients of a pass that is recorded as a CUDA graph came "
                 "after their bucket was sent"
               : "gradients came after their bucket was sent, though passes "
                 "were said to use all parameters equally often",
           .where = layout_->parameters()[first].name,
           .remedy = recorded
               ? "use every parameter equally often in all passes, or do "
                 "without CUDA graphs"
               : "leave .same_use_in_all_passes out"});
    }
  }
}

void GradientReducer::keep_present() {
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < static_cast<int>(parameters_.size()); ++i) {
    const at::Tensor gradient = parameters_[i].tensor.grad();
    if (layout_->parameters()[i].trainable && gradient.defined() &&
        states_[layout_->bucket_of(i)].whole.defined() &&
        gradient.const_data_ptr() ==
            view_of(states_[layout_->bucket_of(i)], i).const_data_ptr()) {
      parameters_[i].written = true;
    }
  }
}

/// Adds a gradient whose bucket has left already: it waits for a round of its
/// own.
void GradientReducer::add_late(
    State& state,
    int parameter,
    const at::Tensor& gradient) {
  if (!state.latecomers.defined()) {
    state.latecomers = at::zeros(
        {layout_->buckets()[layout_->bucket_of(parameter)].elements},
        gradient.options().dtype(options_.accumulate));
  }
  const Placement& place = layout_->placement_of(parameter);
  state.latecomers.narrow(0, place.offset, place.elements)
      .view(gradient.sizes())
      .add_(gradient);
}

void GradientReducer::launch_ready(bool all) {
  while (next_ < static_cast<int>(states_.size()) &&
         (all || states_[next_].missing == 0)) {
    launch(next_++);
  }
}

/// Zeroes unused parameters and padding.
void GradientReducer::fill_gaps(int bucket) {
  State& state = states_[bucket];
  const Bucket& plan = layout_->buckets()[bucket];
  if (!state.whole.defined()) {
    const distributed::BufferScope registered(options_.buffers.get());
    state.whole = at::zeros(
        {plan.elements},
        parameters_[plan.members.front().parameter].tensor.options().dtype(
            gradient_type(options_)));
    return;
  }
  std::int64_t filled = 0;
  const auto zero_until = [&](std::int64_t end) {
    if (end > filled) {
      state.whole.narrow(0, filled, end - filled).zero_();
    }
  };
  for (const Placement& member : plan.members) {
    if (parameters_[member.parameter].written) {
      zero_until(member.offset);
      filled = member.offset + member.elements;
    }
  }
  zero_until(plan.elements);
}

void GradientReducer::launch(int bucket) {
  State& state = states_[bucket];
  fill_gaps(bucket);
  if (options_.before != 1) {
    state.whole.mul_(options_.before);
  }
  state.launched = true;
  if (groups_.all.size() == 1 && !options_.rest_on_cpu) {
    return;
  }
  if (options_.transient) {
    harvest(bucket); // the sum of the pass before
  }
  // Limits the buckets in flight where sending takes memory of its own, or
  // where the sum has a second way to go.
  if (options_.transient || options_.communicate != options_.accumulate ||
      has_copies()) {
    harvest_down_to(most_in_flight - 1);
  }
  for (const int earlier : in_order_) {
    if (states_[earlier].in_flight->packed) {
      states_[earlier].in_flight->packed->advance();
    }
  }
  state.in_flight.emplace(send(bucket, state.whole));
  state.in_flight->crosses = last_ && has_copies();
  in_order_.push_back(bucket);
  if (options_.transient) { // the next pass starts from nothing
    state.whole.reset();
    for (const Placement& member : layout_->buckets()[bucket].members) {
      parameters_[member.parameter].written = false;
    }
  }
  if (groups_.trainers(layout_->buckets()[bucket]).size() == 1) {
    harvest(bucket);
  }
}

GradientReducer::InFlight GradientReducer::send(
    int bucket,
    const at::Tensor& whole) {
  const Bucket& plan = layout_->buckets()[bucket];
  const distributed::ProcessGroup& sharers = groups_.sharers(plan);
  if (options_.shards && options_.wire != Wire::exact && sharers.size() > 1) {
    InFlight flight;
    flight.packed.emplace(whole, groups_, options_.wire);
    return flight;
  }
  const distributed::BufferScope registered(options_.buffers.get());
  at::Tensor sent = whole.to(options_.communicate);
  if (groups_.trainers(plan).size() == 1) {
    return {sent, sent};
  }
  if (!options_.shards) {
    auto pending = groups_.trainers(plan).all_reduce(sent);
    return {std::move(sent), {}, std::move(pending)};
  }
  at::Tensor received =
      at::empty({sent.numel() / sharers.size()}, sent.options());
  auto pending = sharers.reduce_scatter_into(received, sent);
  return {std::move(sent), std::move(received), std::move(pending)};
}

void GradientReducer::harvest(int bucket) {
  State& state = states_[bucket];
  if (!state.in_flight) {
    return;
  }
  InFlight& flight = *state.in_flight;
  flight.wait();
  if (!options_.shards) {
    if (!flight.sent.is_same(state.whole)) {
      state.whole.copy_(flight.sent);
    }
  } else if (options_.rest_on_cpu) {
    send_to_host(state, flight.received);
  } else {
    keep_on_device(bucket, flight.received);
  }
  if (flight.crosses) {
    begin_crossing(state);
  }
  state.in_flight.reset();
  std::erase(in_order_, bucket);
}

/// Starts the sum over the copies. All ranks start these in the order of
/// buckets.
void GradientReducer::begin_crossing(State& state) {
  at::Tensor sent = state.reduced.to(options_.communicate);
  auto pending = groups_.replicas.all_reduce(sent);
  state.crossing.emplace(Crossing{std::move(sent), std::move(pending)});
}

void GradientReducer::finish_crossing(State& state) {
  if (!state.crossing) {
    return;
  }
  state.crossing->pending.wait();
  if (!state.crossing->sent.is_same(state.reduced)) {
    state.reduced.copy_(state.crossing->sent);
  }
  state.crossing.reset();
}

void GradientReducer::keep_on_device(int bucket, const at::Tensor& received) {
  State& state = states_[bucket];
  if (state.reduced.defined()) {
    state.reduced.add_(received);
  } else if (options_.transient && keeps_sums_) {
    if (!state.kept.defined()) {
      state.kept = at::empty_like(
          received,
          received.options().dtype(options_.accumulate));
    }
    state.reduced = state.kept;
    state.reduced.copy_(received);
  } else if (options_.transient) {
    state.reduced = received.to(options_.accumulate);
  } else {
    // The whole bucket stays: this rank's part of it takes the sum.
    const Range range = mine(bucket);
    state.reduced = state.whole.narrow(0, range.begin, range.size());
    state.reduced.copy_(received);
  }
}

void GradientReducer::send_to_host(State& state, const at::Tensor& received) {
  settle(state, true);
  HostPart& host = state.host;
  if (!host.arriving.defined()) {
    host.arriving =
        host_memory(received.numel(), received.scalar_type(), options_.pin);
  }
  host.arrived = copies_.copy(host.arriving, received);
  host.under_way = true;
}

/// Adds the sum that has arrived on the host. `more_to_come`: the memory that
/// it arrived in is needed again.
void GradientReducer::settle(State& state, bool more_to_come) {
  HostPart& host = state.host;
  if (!std::exchange(host.under_way, false)) {
    return;
  }
  host.arrived.wait_on_host();
  if (state.reduced.defined()) {
    state.reduced.add_(host.arriving);
  } else if (!more_to_come) {
    state.reduced = host.arriving;
  } else {
    if (!host.sum.defined()) {
      host.sum = at::empty(
          host.arriving.sizes(),
          host.arriving.options().dtype(options_.accumulate));
    }
    state.reduced = host.sum.copy_(host.arriving);
  }
}

void GradientReducer::harvest_down_to(int still_in_flight) {
  while (static_cast<int>(in_order_.size()) > still_in_flight) {
    harvest(in_order_.front());
  }
}

void GradientReducer::end() {
  const torch::autograd::AutoGradMode no_grad(false);
  take_missed();
  const std::lock_guard lock(mutex_);
  in_pass_ = false;
  if (reducing_) {
    launch_ready(true);
  }
  learn_uses();
  const bool recorded = is_recorded();
  if (recorded || !may_have_latecomers()) {
    refuse_latecomers(recorded);
  }
}

void GradientReducer::abandon() {
  const std::lock_guard lock(mutex_);
  for (State& state : states_) {
    if (state.in_flight) {
      state.in_flight->crosses = false;
    }
  }
  harvest_down_to(0);
  in_pass_ = false;
  forget();
  for (std::size_t kind = 0; kind < learnt_.size(); ++kind) {
    learnt_[kind] &= options_.same_use;
    for (Parameter& parameter : parameters_) {
      parameter.uses[kind] = learnt_[kind] ? parameter.uses[kind] : 1;
    }
  }
  for (Parameter& parameter : parameters_) {
    parameter.tensor.mutable_grad().reset();
  }
}

void GradientReducer::finish_on_time() {
  const torch::autograd::AutoGradMode no_grad(false);
  const std::lock_guard lock(mutex_);
  harvest_down_to(0);
  for (State& state : states_) {
    settle(state, false);
    finish_crossing(state);
  }
}

void GradientReducer::finish() {
  finish_on_time();
  if (!may_have_latecomers()) {
    return;
  }
  bool late = has_latecomers();
  if (groups_.all.size() > 1 && !parameters_.empty()) {
    const at::Tensor flag = at::full(
        {1},
        late ? 1 : 0,
        at::TensorOptions(parameters_[0].tensor.device()).dtype(at::kInt));
    late = groups_.all.all_reduce(flag, distributed::ReduceOp::max)
               .wait()
               .item<int>() != 0;
  }
  if (!late) {
    return;
  }
  const std::vector<at::Tensor> sums = sum_latecomers();
  for (int b = 0; b < static_cast<int>(sums.size()); ++b) {
    if (sums[b].defined()) {
      add_latecomers(b, sums[b]);
    }
  }
}

bool GradientReducer::has_latecomers() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(states_, [](const State& state) {
    return state.latecomers.defined();
  });
}

bool GradientReducer::may_have_latecomers() const {
  return options_.overlap && (!options_.same_use || guessed_);
}

std::vector<at::Tensor> GradientReducer::sum_latecomers() {
  const torch::autograd::AutoGradMode no_grad(false);
  const std::lock_guard lock(mutex_);
  std::vector<int> late(states_.size());
  std::ranges::transform(states_, late.begin(), [](const State& state) {
    return state.latecomers.defined() ? 1 : 0;
  });
  const at::Tensor flags =
      groups_.all
          .all_reduce(
              at::tensor(late).to(parameters_.at(0).tensor.device()),
              distributed::ReduceOp::max)
          .wait()
          .cpu();
  std::vector<at::Tensor> sums(states_.size());
  for (int b = 0; b < static_cast<int>(states_.size()); ++b) {
    if (flags.data_ptr<int>()[b] != 0) {
      sums[b] = late_sum(b);
    }
  }
  return sums;
}

/// Sums latecomers of a bucket, of which this rank may have none.
at::Tensor GradientReducer::late_sum(int bucket) {
  State& state = states_[bucket];
  const Bucket& plan = layout_->buckets()[bucket];
  if (!state.latecomers.defined()) {
    state.latecomers = at::zeros(
        {plan.elements},
        parameters_[plan.members.front().parameter].tensor.options().dtype(
            options_.accumulate));
  }
  InFlight round = send(bucket, state.latecomers.mul_(options_.before));
  round.wait();
  if (has_copies()) {
    groups_.replicas.all_reduce(round.received).wait();
  }
  state.latecomers.reset();
  return options_.shards ? round.received : round.sent;
}

void GradientReducer::add_latecomers(int bucket, const at::Tensor& sum) {
  const torch::autograd::AutoGradMode no_grad(false);
  const std::lock_guard lock(mutex_);
  State& state = states_[bucket];
  if (options_.rest_on_cpu) {
    // `reduced` may be the memory of the last arrival, so a new sum is made.
    state.reduced = state.reduced.to(options_.accumulate).add(sum.cpu());
  } else if (options_.shards) {
    state.reduced.add_(sum);
  } else {
    state.whole.add_(sum);
  }
}

at::Tensor GradientReducer::gradient(int bucket) const {
  const State& state = states_.at(bucket);
  return options_.shards ? state.reduced : state.whole;
}

void GradientReducer::clear() {
  const std::lock_guard lock(mutex_);
  forget();
}

void GradientReducer::forget() {
  for (State& state : states_) {
    state.host.arrived.wait_on_host();
    state.host.under_way = false;
    state.crossing.reset();
    state.reduced.reset();
    state.latecomers.reset();
  }
  for (Parameter& parameter : parameters_) {
    parameter.written = false;
  }
  guessed_ = false;
}

std::int64_t GradientReducer::bytes() const {
  std::int64_t sum = 0;
  const auto count = [&](const at::Tensor& tensor) {
    sum += tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
  };
  for (const State& state : states_) {
    count(state.whole);
    if (options_.transient && !options_.rest_on_cpu) {
      // Otherwise it is part of `whole`, or on the host.
      count(state.kept.defined() ? state.kept : state.reduced);
    }
    count(state.latecomers);
    if (state.crossing && !state.crossing->sent.is_same(state.reduced)) {
      count(state.crossing->sent);
    }
    if (state.in_flight) {
      sum += state.in_flight->packed ? state.in_flight->packed->bytes() : 0;
      count(state.in_flight->received);
      if (!state.in_flight->sent.is_same(state.whole)) {
        count(state.in_flight->sent);
      }
    }
  }
  return sum;
}

std::int64_t GradientReducer::bytes_on_cpu() const {
  std::int64_t sum = 0;
  for (const State& state : states_) {
    for (const at::Tensor& part : {state.host.arriving, state.host.sum}) {
      sum += part.defined() ? static_cast<std::int64_t>(part.nbytes()) : 0;
    }
  }
  return sum;
}

} // namespace cairn::zero
