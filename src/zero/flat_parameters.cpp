#include "zero/flat_parameters.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace cairn::zero {

namespace {

/// Everything in a bucket is one memory, so types and devices cannot mix.
void check_alike(
    const Layout& layout,
    const std::vector<at::Tensor>& parameters) {
  if (parameters.size() != layout.parameters().size()) {
    throw InternalError({.what = "a layout of other parameters"});
  }
  for (std::size_t i = 1; i < parameters.size(); ++i) {
    if (parameters[i].scalar_type() != parameters[0].scalar_type() ||
        parameters[i].device() != parameters[0].device()) {
      throw ConfigError(
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

c10::StorageImpl& storage_of(const at::Tensor& tensor) {
  return *tensor.storage().unsafeGetStorageImpl();
}

} // namespace

FlatParameters::FlatParameters(
    const Layout& layout,
    std::vector<at::Tensor> parameters,
    distributed::ProcessGroup group,
    const Options& options)
    : layout_(&layout),
      parameters_(std::move(parameters)),
      group_(std::move(group)) {
  check_alike(layout, parameters_);
  const torch::autograd::AutoGradMode no_grad(false);
  for (int b = 0; b < static_cast<int>(layout.buckets().size()); ++b) {
    const Bucket& bucket = layout.buckets()[b];
    const at::Tensor& first = parameters_[bucket.members.front().parameter];
    State state{
        .whole = at::zeros({bucket.elements}, first.options()),
        .partitioned = options.partition && !bucket.persistent &&
            (layout.world() > 1 || (options.rest_on_cpu && first.is_cuda()))};
    for (const Placement& member : bucket.members) {
      at::Tensor& parameter = parameters_[member.parameter];
      at::Tensor view = state.whole.narrow(0, member.offset, member.elements)
                            .view(parameter.sizes());
      view.copy_(parameter.detach());
      parameter.set_data(view);
    }
    group_.broadcast(state.whole, 0).wait();
    if (state.partitioned) {
      const Range mine = layout.shard(b, group_.rank());
      state.resting = state.whole.narrow(0, mine.begin, mine.size()).clone();
      if (options.rest_on_cpu && state.resting.is_cuda()) {
        state.resting = state.resting.cpu().pin_memory();
      }
    }
    states_.push_back(std::move(state));
    if (states_.back().partitioned) {
      release(b);
    }
  }
}

bool FlatParameters::any_partitioned() const {
  return std::ranges::any_of(states_, &State::partitioned);
}

const c10::StorageImpl* FlatParameters::storage(int bucket) const {
  return &storage_of(states_[bucket].whole);
}

at::Tensor FlatParameters::shard(int bucket) const {
  const State& state = states_[bucket];
  if (state.partitioned) {
    return state.resting;
  }
  const Range mine = layout_->shard(bucket, group_.rank());
  return state.whole.narrow(0, mine.begin, mine.size());
}

void FlatParameters::begin_gather(int bucket) {
  State& state = states_[bucket];
  if (state.live || state.fetch) {
    return;
  }
  const torch::autograd::AutoGradMode no_grad(false);
  at::Tensor fresh =
      at::empty({layout_->buckets()[bucket].elements}, state.whole.options());
  at::Tensor mine = state.resting;
  if (mine.device() != fresh.device()) {
    mine = mine.to(fresh.device(), /*non_blocking=*/true);
  }
  auto pending = group_.all_gather_into(fresh, mine);
  state.fetch.emplace(Fetch{std::move(fresh), std::move(pending)});
}

void FlatParameters::finish_gather(int bucket) {
  State& state = states_[bucket];
  if (state.live) {
    return;
  }
  begin_gather(bucket);
  state.fetch->pending.wait();
  adopt(state, std::exchange(state.fetch, std::nullopt)->fresh);
}

/// The parameters' own storage takes over the memory, so that every view of it,
/// those saved for backward included, has its data again.
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
    state.fetch->pending.wait();
    state.fetch.reset();
  }
  drop_storage(state);
  state.live = false;
}

void FlatParameters::drop_storage(State& state) {
  c10::StorageImpl& storage = storage_of(state.whole);
  storage.set_data_ptr_noswap(c10::DataPtr(nullptr, state.whole.device()));
  storage.set_nbytes(0);
}

distributed::Pending FlatParameters::publish(int bucket) {
  return group_.all_gather_into(states_[bucket].whole, shard(bucket));
}

FlatParameters::Bytes FlatParameters::bytes() const {
  Bytes result;
  for (int b = 0; b < buckets(); ++b) {
    const State& state = states_[b];
    const std::int64_t size = layout_->buckets()[b].elements *
        static_cast<std::int64_t>(state.whole.element_size());
    if (!state.partitioned) {
      result.whole += size;
      continue;
    }
    result.shards += size / layout_->world();
    if (state.live || state.fetch) {
      result.live += size;
    }
  }
  return result;
}

} // namespace cairn::zero
