#include "zero/gather/nursery.h"

#include "distributed/internal/expert_mark.h"
#include "distributed/internal/named_gather.h"

#include <ATen/Functions.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace cairn::zero {

namespace {

/// Hides operators in its scope: they are not the model's, and have no
/// gradient.
struct Unobserved {
  at::RecordFunctionGuard operators{false};
  torch::autograd::AutoGradMode gradients{false};
};

} // namespace

/// The context of a parameter's memory, which its storage carries along.
struct Nursery::Child {
  std::shared_ptr<Nursery> home;
  int key;
  c10::StorageImpl* storage;
  WeakTensor tensor; ///< empty once the nursery has let go of it
  at::TensorOptions options;
  Sharers sharers;
  std::int64_t elements;
  c10::DataPtr memory; ///< memory of all elements, while live
  at::Tensor slice;    ///< this rank's slice, while not live
  bool live = true;
  int pins = 0;

  const distributed::ProcessGroup& group() const {
    return sharers == Sharers::of_experts ? home->options_.experts
                                          : home->options_.group;
  }
  std::int64_t per_rank() const {
    const std::int64_t ranks = group().size();
    return (elements + ranks - 1) / ranks;
  }
};

Nursery::Nursery(Options options)
    : options_(std::move(options)), observer_(*this) {}

Nursery::~Nursery() = default;

void Nursery::delete_child(void* child) {
  const std::unique_ptr<Child> owned(static_cast<Child*>(child));
  owned->home->forget(*owned);
}

Nursery::Child* Nursery::child_of(const at::Tensor& tensor) {
  return tensor.storage().data_ptr().cast_context<Child>(&delete_child);
}

void Nursery::take(const at::Tensor& parameter) {
  take(
      parameter,
      distributed::is_marked_as_expert(parameter) ? Sharers::of_experts
                                                  : Sharers::all);
}

void Nursery::take(const at::Tensor& parameter, Sharers sharers) {
  const Unobserved unobserved;
  const std::lock_guard lock(mutex_);
  c10::StorageImpl& storage = *parameter.storage().unsafeGetStorageImpl();
  const std::int64_t elements = parameter.numel();
  const bool is_all_of_it = parameter.storage_offset() == 0 &&
      parameter.is_non_overlapping_and_dense() &&
      storage.nbytes() == parameter.nbytes();
  const int ranks = sharers == Sharers::of_experts ? options_.experts.size()
                                                   : options_.group.size();
  if (ranks == 1 || elements == 0 || !is_all_of_it ||
      child_of(parameter) != nullptr) {
    return;
  }
  auto* child = new Child{
      .home = shared_from_this(),
      .key = next_key_++,
      .storage = &storage,
      .tensor = WeakTensor(parameter.getIntrusivePtr()),
      .options = parameter.options().requires_grad(std::nullopt),
      .sharers = sharers,
      .elements = elements};
  c10::DataPtr memory = storage.set_data_ptr(
      c10::DataPtr(nullptr, child, &delete_child, parameter.device()));
  set_memory(*child, std::move(memory));
  children_[child->key] = child;
  live_.push_back(child);
  live_elements_ += elements;
  observer_.watch(&storage, child->key);
}

/// Makes the storage point to `memory`, which the child owns.
void Nursery::set_memory(Child& child, c10::DataPtr memory) {
  child.memory = std::move(memory);
  child.storage->_mutable_data_ptr_no_checks().release_context();
  child.storage->set_data_ptr_noswap(c10::DataPtr(
      child.memory.get(),
      &child,
      &delete_child,
      child.options.device()));
  child.storage->set_nbytes(
      child.memory ? child.elements * child.options.dtype().itemsize() : 0);
}

void Nursery::forget(const Child& child) {
  const std::lock_guard lock(mutex_);
  observer_.unwatch(child.storage);
  children_.erase(child.key);
  if (child.live) {
    live_elements_ -= child.elements;
    std::erase(live_, &child);
  }
  if (!child.tensor.expired()) { // set_data() was called, as Module::to() does
    moved_.push_back({child.tensor, child.sharers});
  }
}

void Nursery::follow_moved() {
  for (const Moved& moved : std::exchange(moved_, {})) {
    const at::Tensor tensor(moved.tensor.lock());
    // Storage that others hold as well, such as a bucket, is theirs.
    if (tensor.defined() && tensor.storage().use_count() == 1) {
      take(tensor, moved.sharers);
    }
  }
}

void Nursery::before_use(int key, std::int64_t) noexcept {
  const Unobserved unobserved;
  const std::lock_guard lock(mutex_);
  const auto found = children_.find(key);
  if (found == children_.end()) {
    return;
  }
  Child& child = *found->second;
  ++child.pins;
  try {
    make_whole(child);
  } catch (...) {
    failure_ = std::current_exception();
    // Fills NaN, because failure_ is set: the operator runs whatever we do.
    make_whole(child);
  }
  std::erase(live_, &child);
  live_.push_back(&child);
  make_room();
}

void Nursery::after_use(int key) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = children_.find(key);
  if (found != children_.end()) {
    --found->second->pins;
  }
}

void Nursery::make_room() noexcept {
  const Unobserved unobserved;
  const std::lock_guard lock(mutex_);
  follow_moved();
  shrink_to(options_.max_live, 1);
}

void Nursery::slice_all() {
  const Unobserved unobserved;
  const std::lock_guard lock(mutex_);
  follow_moved();
  shrink_to(0, 0);
  rethrow();
}

/// Slices the longest unused until `elements` are left. The last `kept` stay
/// anyway.
void Nursery::shrink_to(std::int64_t elements, std::size_t kept) {
  const std::vector<Child*> candidates(
      live_.begin(),
      live_.end() - static_cast<std::ptrdiff_t>(std::min(kept, live_.size())));
  for (Child* child : candidates) {
    if (live_elements_ <= elements || failure_) {
      return;
    }
    if (child->pins == 0) {
      try {
        rest(*child);
      } catch (...) {
        failure_ = std::current_exception();
      }
    }
  }
}

/// Slices a parameter, in the type in which it is to rest.
void Nursery::rest(Child& child) {
  const at::ScalarType type = child.options.dtype().toScalarType();
  auto tensor = child.tensor.lock();
  if (!tensor || !at::isFloatingType(type) ||
      type == options_.dtype.value_or(type)) {
    slice(child);
    return;
  }
  const at::Tensor parameter(std::move(tensor));
  const Sharers sharers = child.sharers;
  child.tensor.reset();
  parameter.set_data(parameter.detach().to(*options_.dtype)); // ends the child
  take(parameter, sharers);
  slice(*child_of(parameter));
}

/// Rank 0's values on the wire's device. The values of the other ranks are
/// dropped.
at::Tensor Nursery::values_of_first_rank(Child& child) {
  at::Tensor all;
  if (child.group().rank() == 0) {
    all = at::from_blob(child.memory.get(), {child.elements}, child.options)
              .to(options_.wire);
  } else {
    set_memory(child, c10::DataPtr(nullptr, child.options.device()));
    all = at::empty({child.elements}, child.options.device(options_.wire));
  }
  child.group().broadcast(all, 0).wait();
  return all;
}

void Nursery::slice(Child& child) {
  child.live = false;
  std::erase(live_, &child);
  live_elements_ -= child.elements;
  const at::Tensor all = values_of_first_rank(child);
  const std::int64_t size = child.per_rank();
  const std::int64_t begin =
      std::min(child.elements, child.group().rank() * size);
  const std::int64_t end = std::min(child.elements, begin + size);
  child.slice = at::zeros({size}, child.options);
  child.slice.narrow(0, 0, end - begin)
      .copy_(all.narrow(0, begin, end - begin));
  set_memory(child, c10::DataPtr(nullptr, child.options.device()));
}

void Nursery::make_whole(Child& child) {
  if (child.live) {
    return;
  }
  at::Tensor all;
  if (failure_) {
    all = at::full(
        {child.elements},
        std::numeric_limits<double>::quiet_NaN(),
        child.options);
  } else {
    all = at::empty(
        {child.per_rank() * child.group().size()},
        child.options.device(options_.wire));
    distributed::all_gather_named(
        child.group(),
        all,
        child.slice.to(options_.wire),
        fmt::format("parameter {} of those born in zero::Init", child.key))
        .wait();
    if (options_.wire != child.options.device()) {
      all = all.narrow(0, 0, child.elements).to(child.options.device());
    }
  }
  child.slice.reset();
  set_memory(
      child,
      all.storage().unsafeGetStorageImpl()->set_data_ptr(c10::DataPtr()));
  child.live = true;
  live_.push_back(&child);
  live_elements_ += child.elements;
}

void Nursery::rethrow() {
  const std::lock_guard lock(mutex_);
  if (failure_) {
    std::rethrow_exception(failure_);
  }
}

bool Nursery::holds(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() &&
      child_of(tensor) != nullptr;
}

bool Nursery::holds_for_all(const at::Tensor& tensor) {
  return holds(tensor) && child_of(tensor)->sharers == Sharers::all;
}

void Nursery::let_go(const at::Tensor& parameter) {
  if (Child* child = child_of(parameter)) {
    const std::lock_guard lock(child->home->mutex_);
    child->tensor.reset();
    child->home->rethrow();
  }
}

} // namespace cairn::zero
