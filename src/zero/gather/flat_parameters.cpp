#include "zero/internal/flat_parameters.h"

#include "distributed/internal/named_gather.h"
#include "zero/gather/nursery.h"
#include "zero/internal/host_memory.h"
#include "zero/reduce/packed.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace cairn::zero {

namespace {

/// Refuses parameters of different types or devices: a bucket is one memory.
void check_alike(
    const Layout& layout,
    const std::vector<at::Tensor>& parameters) {
  if (parameters.size() != layout.parameters().size()) {
    throw InternalError({.what = "a layout of other parameters"});
  }
  for (std::size_t i = 1; i < parameters.size(); ++i) {
    if (parameters[i].scalar_type() != parameters[0].scalar_type() ||
        parameters[i].device() != parameters[0].device()) {
      throw UsageError(
          {.what = "parameters differ in type or device",
           .where = layout.parameters()[i].name,
           .values = fmt::format(
               "{} on {}, {} is {} on {}",
               c10::toString(parameters[i].scalar_type()),
               parameters[i].device().str(),
               layout.parameters()[0].name,
               c10::toString(parameters[0].scalar_type()),
               parameters[0].device().str()),
           .remedy = "convert the model with module.to(…) first"});
    }
  }
}

/// Refuses experts that zero::Init took for the same on all ranks, and cut so:
/// layers of nn mark theirs, others do not.
void refuse_unmarked_experts(
    const Layout& layout,
    const Bucket& bucket,
    const Placement& member,
    const at::Tensor& parameter) {
  if (bucket.expert && Nursery::holds_for_all(parameter)) {
    throw UsageError(
        {.what = "experts that ranks share out were built within zero::Init, "
                 "which did not know that they are",
         .where = layout.parameters()[member.parameter].name,
         .remedy =
             "give zero::Init the mesh and let nn::Layer::add_parameter() "
             "make them with Gradient::of_experts, or build the model "
             "outside of it"});
  }
}

/// `bucket 3: layers.7.weight, layers.7.bias`.
std::string name_of(const Layout& layout, int bucket) {
  constexpr std::size_t shown = 4;
  const std::vector<Placement>& members = layout.buckets()[bucket].members;
  std::string text = fmt::format("bucket {}:", bucket);
  for (std::size_t i = 0; i < std::min(members.size(), shown); ++i) {
    text += fmt::format(
        "{} {}",
        i == 0 ? "" : ",",
        layout.parameters()[members[i].parameter].name);
  }
  if (members.size() > shown) {
    text += fmt::format(" and {} more", members.size() - shown);
  }
  return text;
}

c10::StorageImpl& storage_of(const at::Tensor& tensor) {
  return *tensor.storage().unsafeGetStorageImpl();
}

} // namespace

FlatParameters::FlatParameters(
    const Layout& layout,
    std::vector<at::Tensor> parameters,
    RankGroups groups,
    Options options)
    : layout_(&layout),
      parameters_(std::move(parameters)),
      groups_(std::move(groups)),
      options_(std::move(options)),
      copies_(parameters_.at(0).device()) {
  check_alike(layout, parameters_);
  const torch::autograd::AutoGradMode no_grad(false);
  for (int b = 0; b < static_cast<int>(layout.buckets().size()); ++b) {
    const Bucket& bucket = layout.buckets()[b];
    const at::Tensor& first = parameters_[bucket.members.front().parameter];
    names_.push_back(name_of(layout, b));
    const bool rests_elsewhere =
        options_.disk || (options_.rest_on_cpu && !first.is_cpu());
    states_.push_back(
        {.partitioned = options_.partition && !bucket.persistent &&
             (layout.world_of(bucket) > 1 || rests_elsewhere)});
    if (states_.back().partitioned && is_without_memory(bucket)) {
      lay_out_shard(b);
    } else {
      lay_out_whole(b);
    }
  }
  options_.fill = nullptr;
}

/// True when none of the bucket's parameters has memory yet.
bool FlatParameters::is_without_memory(const Bucket& bucket) const {
  return !options_.without_memory.empty() &&
      std::ranges::all_of(bucket.members, [&](const Placement& member) {
        return options_.without_memory[member.parameter];
      });
}

void FlatParameters::lay_out_whole(int b) {
  const Bucket& bucket = layout_->buckets()[b];
  State& state = states_[b];
  {
    const distributed::BufferScope registered(options_.buffers.get());
    state.whole = at::zeros(
        {bucket.elements},
        parameters_[bucket.members.front().parameter].options());
  }
  for (const Placement& member : bucket.members) {
    at::Tensor& parameter = parameters_[member.parameter];
    const at::Tensor place =
        state.whole.narrow(0, member.offset, member.elements);
    if (!options_.without_memory.empty() &&
        options_.without_memory[member.parameter]) {
      options_.fill(member.parameter, 0, place);
    } else {
      refuse_unmarked_experts(*layout_, bucket, member, parameter);
      place.view(parameter.sizes()).copy_(parameter.detach());
      Nursery::let_go(parameter);
    }
  }
  make_views(b);
  if (!is_without_memory(bucket)) {
    groups_.trainers(bucket).broadcast(state.whole, 0).wait();
  }
  if (state.partitioned) {
    const Range range = mine(b);
    rest(b, state.whole.narrow(0, range.begin, range.size()));
    release(b);
  }
}

/// Makes this rank's part of a bucket whose parameters have no memory, without
/// the whole of it.
void FlatParameters::lay_out_shard(int b) {
  const Bucket& bucket = layout_->buckets()[b];
  State& state = states_[b];
  const at::TensorOptions options =
      parameters_[bucket.members.front().parameter].options();
  state.whole = at::empty({bucket.elements}, options);
  make_views(b);
  drop_storage(state);
  state.live = false;

  const Range range = mine(b);
  const at::Tensor part = [&] {
    const distributed::BufferScope registered(options_.buffers.get());
    return options_.disk || options_.rest_on_cpu
        ? host_memory(range.size(), state.whole.scalar_type(), options_.pin)
        : at::empty({range.size()}, options);
  }();
  part.zero_();
  for (const Slice& slice : layout_->slices(b, range)) {
    options_.fill(
        slice.parameter,
        slice.in_parameter.begin,
        part.narrow(0, slice.offset - range.begin, slice.in_parameter.size()));
  }
  rest(b, part);
}

/// Makes the parameters views of their bucket.
void FlatParameters::make_views(int b) {
  for (const Placement& member : layout_->buckets()[b].members) {
    at::Tensor& parameter = parameters_[member.parameter];
    parameter.set_data(states_[b]
                           .whole.narrow(0, member.offset, member.elements)
                           .view(parameter.sizes()));
  }
}

/// Lays this rank's part of a bucket aside: a view of whole(), or memory of its
/// own.
void FlatParameters::rest(int bucket, const at::Tensor& part) {
  State& state = states_[bucket];
  const Range range = mine(bucket);
  if (options_.disk && in_memory_ + range.size() > options_.most_in_memory) {
    state.on_disk = true;
    options_.disk->put(bucket, {.weights = part});
    return;
  }
  in_memory_ += range.size();
  if (!layout_->buckets()[bucket].trainable && wire_of(bucket) != Wire::exact) {
    state.packed = packed_of(part, wire_of(bucket));
  } else if (options_.rest_on_cpu && !part.is_cpu()) {
    state.resting = host_memory(range.size(), part.scalar_type(), options_.pin);
    state.resting.copy_(part);
  } else {
    const distributed::BufferScope registered(options_.buffers.get());
    state.resting = part.is_alias_of(state.whole) ? part.clone() : part;
  }
}

Wire FlatParameters::wire_of(int bucket) const {
  return layout_->buckets()[bucket].trainable ? options_.wire
                                              : options_.frozen_wire;
}

bool FlatParameters::any_partitioned() const {
  return std::ranges::any_of(states_, &State::partitioned);
}

const c10::StorageImpl* FlatParameters::storage(int bucket) const {
  return &storage_of(states_[bucket].whole);
}

at::Tensor FlatParameters::acquire_shard(int bucket) {
  State& state = states_[bucket];
  if (state.on_disk) {
    let_go_of_buffer();
    return options_.disk->acquire(bucket).weights;
  }
  const Range range = mine(bucket);
  if (state.packed.defined()) {
    if (!state.opened.defined()) {
      state.opened = at::empty({range.size()}, state.whole.options());
      unpack(state.packed, wire_of(bucket), state.opened);
    }
    return state.opened;
  }
  return state.partitioned ? state.resting
                           : state.whole.narrow(0, range.begin, range.size());
}

at::Tensor FlatParameters::acquire_blank_shard(int bucket) {
  if (states_[bucket].on_disk) {
    let_go_of_buffer();
    return options_.disk->acquire_blank(bucket).weights;
  }
  return acquire_shard(bucket);
}

void FlatParameters::give_back_shard(int bucket, bool changed) {
  State& state = states_[bucket];
  if (state.on_disk) {
    options_.disk->give_back(bucket, changed);
  } else if (state.packed.defined()) {
    if (changed) {
      pack(state.opened, wire_of(bucket), state.packed);
    }
    state.opened.reset();
  }
}

void FlatParameters::begin_gather(int bucket, bool exact) {
  State& state = states_[bucket];
  if (state.live || state.fetch) {
    return;
  }
  {
    const distributed::BufferScope registered(options_.buffers.get());
    state.fetch.emplace(Fetch{
        .fresh = at::empty(
            {layout_->buckets()[bucket].elements},
            state.whole.options()),
        .exact = exact || !rounds(bucket)});
  }
  waiting_.push_back(bucket);
  if (state.on_disk) {
    options_.disk->prefetch(bucket);
  }
  // All ranks make the same calls, so their collectives match, whichever disk
  // is the slowest.
  start_all_but(
      options_.disk ? static_cast<std::size_t>(options_.reads_ahead) : 0);
}

void FlatParameters::start_all_but(std::size_t waiting) {
  while (waiting_.size() > waiting) {
    const int bucket = waiting_.front();
    waiting_.pop_front();
    start(bucket);
  }
}

void FlatParameters::start(int bucket) {
  const torch::autograd::AutoGradMode no_grad(false);
  State& state = states_[bucket];
  Fetch& fetch = *state.fetch;
  fetch.started = true;
  if (start_from_second_copy(bucket) || start_packed(bucket)) {
    return;
  }
  const Range range = mine(bucket);
  const at::Tensor part = fetch.fresh.narrow(0, range.begin, range.size());
  const at::Tensor from = acquire_shard(bucket);
  const bool shared = group_of(bucket).size() > 1;
  if (shared && !state.on_disk && from.device() == part.device()) {
    gather_parts(bucket, fetch, from);
    return;
  }
  fetch.copied = copies_.copy(part, from);
  if (shared) {
    copies_.beside([&] { gather_parts(bucket, fetch, part); });
  }
  if (state.on_disk) {
    copied_from_ = bucket;
    if (part.is_cpu()) {
      let_go_of_buffer();
    }
  }
}

/// Gathers within the inner group, if its copy is there and suffices.
bool FlatParameters::start_from_second_copy(int bucket) {
  State& state = states_[bucket];
  Fetch& fetch = *state.fetch;
  const at::Tensor& part = state.second_copy;
  const bool is_packed = wire_of(bucket) != Wire::exact;
  if (!part.defined() || (rounds(bucket) && fetch.exact)) {
    return false;
  }
  fetch.from_second_copy = true;
  if (is_packed) {
    fetch.packed =
        at::empty({part.numel() * groups_.inner.size()}, part.options());
  }
  fetch.gathered = distributed::all_gather_named(
      groups_.inner,
      is_packed ? fetch.packed : fetch.fresh,
      part,
      names_[bucket]);
  return true;
}

/// Gathers parts as small integers, unless the exact values are wanted and are
/// there.
bool FlatParameters::start_packed(int bucket) {
  State& state = states_[bucket];
  Fetch& fetch = *state.fetch;
  if (wire_of(bucket) == Wire::exact || (rounds(bucket) && fetch.exact)) {
    return false;
  }
  const at::Tensor part = state.packed.defined()
      ? state.packed
      : packed_of(state.resting, wire_of(bucket));
  fetch.packed =
      at::empty({part.numel() * groups_.shards.size()}, part.options());
  gather_parts(bucket, fetch, part);
  return true;
}

/// Gathers everyone's part, in the order of ranks.
void FlatParameters::gather_parts(
    int bucket,
    Fetch& fetch,
    const at::Tensor& part) {
  if (groups_.gathers_twice) {
    fetch.hop =
        at::empty({part.numel() * groups_.outer.size()}, part.options());
    fetch.gathered = distributed::all_gather_named(
        groups_.outer,
        fetch.hop,
        part,
        names_[bucket]);
  } else {
    fetch.gathered = distributed::all_gather_named(
        group_of(bucket),
        fetch.packed.defined() ? fetch.packed : fetch.fresh,
        part,
        names_[bucket]);
  }
}

/// The second of two gathers. The first one, over the slow wire, was under way
/// while operators computed; this one is quick.
void FlatParameters::spread_in_node(const Fetch& fetch) {
  const at::Tensor& whole = fetch.packed.defined() ? fetch.packed : fetch.fresh;
  const at::Tensor by_place = at::empty_like(whole);
  groups_.inner.all_gather_into(by_place, fetch.hop).wait();
  const int nodes = groups_.outer.size();
  const int places = groups_.inner.size();
  whole.view({nodes, places, -1})
      .copy_(by_place.view({places, nodes, -1}).transpose(0, 1));
}

/// Unpacks the parts once all are there, and keeps this rank's part of the
/// second copy.
void FlatParameters::land(int bucket, const Fetch& fetch) {
  const torch::autograd::AutoGradMode no_grad(false);
  State& state = states_[bucket];
  if (fetch.hop.defined()) {
    spread_in_node(fetch);
  }
  if (fetch.packed.defined()) {
    const int shards = groups_.shards.size();
    const std::int64_t bytes = fetch.packed.numel() / shards;
    for (int rank = 0; rank < shards; ++rank) {
      const Range range = layout_->shard(bucket, rank);
      unpack(
          fetch.packed.narrow(0, rank * bytes, bytes),
          wire_of(bucket),
          fetch.fresh.narrow(0, range.begin, range.size()));
    }
  }
  const bool as_it_travels =
      fetch.packed.defined() || wire_of(bucket) == Wire::exact;
  if (groups_.has_second_copy && !fetch.from_second_copy && as_it_travels) {
    const at::Tensor& from =
        fetch.packed.defined() ? fetch.packed : fetch.fresh;
    const std::int64_t part = from.numel() / groups_.inner.size();
    state.second_copy =
        from.narrow(0, groups_.inner.rank() * part, part).clone();
  }
}

bool FlatParameters::exact(int bucket) const {
  const State& state = states_[bucket];
  return state.fetch ? state.fetch->exact : state.exact;
}

void FlatParameters::forget_second_copies() {
  for (State& state : states_) {
    state.second_copy.reset();
  }
}

void FlatParameters::let_go_of_buffer() {
  if (const auto bucket = std::exchange(copied_from_, std::nullopt)) {
    if (states_[*bucket].fetch) {
      states_[*bucket].fetch->copied.wait_on_host();
    }
    options_.disk->give_back(*bucket, false);
  }
}

void FlatParameters::finish_gather(int bucket) {
  State& state = states_[bucket];
  if (state.live) {
    return;
  }
  begin_gather(bucket);
  while (!state.fetch->started) {
    start_all_but(waiting_.size() - 1);
  }
  state.fetch->copied.wait_on_device();
  if (state.fetch->gathered) {
    state.fetch->gathered->wait();
  }
  if (copied_from_ == bucket) {
    let_go_of_buffer();
  }
  land(bucket, *state.fetch);
  state.exact = state.fetch->exact;
  adopt(state, std::exchange(state.fetch, std::nullopt)->fresh);
}

/// Moves the memory into the parameters' own storage, so that every view of
/// that storage, those saved for backward included, has its data again.
void FlatParameters::adopt(State& state, const at::Tensor& fresh) {
  c10::StorageImpl& from = storage_of(fresh);
  c10::StorageImpl& to = storage_of(state.whole);
  const std::size_t bytes = from.nbytes();
  to.set_data_ptr_noswap(from.set_data_ptr(c10::DataPtr()));
  to.set_nbytes(bytes);
  from.set_nbytes(0);
  state.live = true;
}

void FlatParameters::fill_missing(int bucket) noexcept {
  State& state = states_[bucket];
  if (state.live) {
    return;
  }
  std::erase(waiting_, bucket);
  state.fetch.reset();
  adopt(
      state,
      at::full(
          {layout_->buckets()[bucket].elements},
          std::numeric_limits<double>::quiet_NaN(),
          state.whole.options()));
}

void FlatParameters::release(int bucket) {
  State& state = states_[bucket];
  if (!state.partitioned) {
    return;
  }
  if (state.fetch) {
    finish_gather(bucket);
  }
  drop_storage(state);
  state.live = false;
}

void FlatParameters::drop_storage(State& state) {
  c10::StorageImpl& storage = storage_of(state.whole);
  storage.set_data_ptr_noswap(c10::DataPtr(nullptr, state.whole.device()));
  storage.set_nbytes(0);
}

void FlatParameters::keep(int bucket) {
  if (partitioned(bucket)) {
    const torch::autograd::AutoGradMode no_grad(false);
    const Range range = mine(bucket);
    acquire_blank_shard(bucket).copy_(
        whole(bucket).narrow(0, range.begin, range.size()));
    give_back_shard(bucket, true);
  }
}

distributed::Pending FlatParameters::publish(int bucket) {
  return group_of(bucket).all_gather_into(
      states_[bucket].whole,
      acquire_shard(bucket));
}

FlatParameters::Bytes FlatParameters::bytes() const {
  Bytes result;
  if (options_.disk) {
    const ShardTier::Bytes disk = options_.disk->bytes();
    result.on_cpu = disk.memory;
    result.on_disk = disk.disk;
  }
  for (int b = 0; b < buckets(); ++b) {
    const State& state = states_[b];
    const std::int64_t size = layout_->buckets()[b].elements *
        static_cast<std::int64_t>(state.whole.element_size());
    if (!state.partitioned) {
      result.whole += size;
      continue;
    }
    if (state.resting.defined()) {
      (state.resting.device() == state.whole.device() ? result.shards
                                                      : result.on_cpu) +=
          static_cast<std::int64_t>(state.resting.nbytes());
    }
    for (const at::Tensor& part :
         {state.packed, state.opened, state.second_copy}) {
      result.shards +=
          part.defined() ? static_cast<std::int64_t>(part.nbytes()) : 0;
    }
    if (state.live || state.fetch) {
      result.live += size;
    }
    if (state.fetch) {
      for (const at::Tensor& part : {state.fetch->packed, state.fetch->hop}) {
        result.live +=
            part.defined() ? static_cast<std::int64_t>(part.nbytes()) : 0;
      }
    }
  }
  return result;
}

} // namespace cairn::zero
