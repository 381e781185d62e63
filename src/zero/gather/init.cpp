#include <cairn/zero/init.h>

#include "zero/gather/nursery.h"

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <cairn/base/error.h>

#include <exception>
#include <unordered_set>
#include <utility>
#include <vector>

namespace cairn::zero {

/// Sees tensors as operators make and fill them, and gives those that have
/// become parameters to the nursery. Only once a module has registered a tensor
/// does it show that the tensor is a parameter, so every tensor is looked at
/// again before the operators that follow.
class Init::Births {
 public:
  explicit Births(std::shared_ptr<Nursery> nursery);
  ~Births();
  Births(const Births&) = delete;
  Births& operator=(const Births&) = delete;

  void finish();
  int exceptions() const { return exceptions_; }

 private:
  static thread_local Births* current; // libtorch takes plain functions

  static std::unique_ptr<at::ObserverContext> before(const at::RecordFunction&);
  static void after(const at::RecordFunction&, at::ObserverContext*);

  void consider(const c10::IValue& value);
  void consider(const at::Tensor& tensor);
  void take_born();

  std::shared_ptr<Nursery> nursery_;
  /// Tensors seen, in the order in which they were first seen: the same order
  /// on all ranks.
  std::vector<WeakTensor> unborn_;
  std::unordered_set<const c10::TensorImpl*> known_; ///< the tensors in unborn_
  int depth_ = 0; ///< nesting of operators that run operators
  int exceptions_ = std::uncaught_exceptions();
  at::CallbackHandle handle_;
};

thread_local Init::Births* Init::Births::current = nullptr;

Init::Births::Births(std::shared_ptr<Nursery> nursery)
    : nursery_(std::move(nursery)) {
  if (current != nullptr) {
    throw UsageError(
        {.what = "a scope of zero::Init within another",
         .remedy = "open one, around everything that makes parameters"});
  }
  current = this;
  handle_ =
      at::addThreadLocalCallback(at::RecordFunctionCallback(before, after)
                                     .needsInputs(true)
                                     .needsOutputs(true)
                                     .scopes({at::RecordScope::FUNCTION}));
}

Init::Births::~Births() {
  at::removeCallback(handle_);
  current = nullptr;
}

std::unique_ptr<at::ObserverContext> Init::Births::before(
    const at::RecordFunction& call) {
  if (current == nullptr) { // a thread that inherited the callback
    return nullptr;
  }
  const bool outermost = current->depth_++ == 0;
  if (outermost) {
    current->take_born();
  }
  bool uses_some = false;
  for (const c10::IValue& input : call.inputs()) {
    current->consider(input);
    uses_some |= input.isTensor() && Nursery::holds(input.toTensor());
  }
  if (outermost && !uses_some) {
    // Otherwise the operator might lose parameters that it is about to use.
    current->nursery_->make_room();
  }
  return nullptr;
}

void Init::Births::after(const at::RecordFunction& call, at::ObserverContext*) {
  if (current == nullptr) {
    return;
  }
  --current->depth_;
  for (const c10::IValue& output : call.outputs()) {
    current->consider(output);
  }
}

void Init::Births::consider(const c10::IValue& value) {
  if (value.isTensor()) {
    consider(value.toTensor());
  } else if (value.isTensorList()) {
    for (const c10::IValue& element : value.toListRef()) {
      consider(element.toTensor());
    }
  }
}

void Init::Births::consider(const at::Tensor& tensor) {
  const bool could_be_one = tensor.defined() && tensor.has_storage() &&
      tensor.layout() == at::kStrided &&
      (tensor.is_floating_point() || tensor.is_complex());
  if (could_be_one && known_.insert(tensor.unsafeGetTensorImpl()).second) {
    unborn_.emplace_back(tensor.getIntrusivePtr());
  }
}

void Init::Births::take_born() {
  std::erase_if(unborn_, [&](const WeakTensor& weak) {
    auto impl = weak.lock();
    if (!impl) {
      known_.erase(weak._unsafe_get_target());
      return true;
    }
    const at::Tensor tensor(std::move(impl));
    if (!tensor.requires_grad() || !tensor.is_leaf()) {
      return false;
    }
    known_.erase(tensor.unsafeGetTensorImpl());
    nursery_->take(tensor);
    return true;
  });
}

void Init::Births::finish() {
  take_born();
  nursery_->slice_all();
}

Init::Init(InitOptions options) {
  if (!options.enabled) {
    return;
  }
  if (options.dtype && !at::isFloatingType(*options.dtype)) {
    throw UsageError(
        {.what = "parameters cannot rest in this type",
         .where = "zero::Init, dtype",
         .values = c10::toString(*options.dtype),
         .remedy = "use kFloat, kHalf or kBFloat16"});
  }
  const distributed::World world =
      options.world ? *options.world : distributed::init_distributed();
  births_ = std::make_unique<Births>(std::make_shared<Nursery>(Nursery::Options{
      .group = options.mesh ? options.mesh->data_context() : world.group(),
      .experts = options.mesh
          ? options.mesh->along(distributed::Axis::expert_data)
          : world.group(),
      .wire = at::Device(world.device_name()),
      .max_live = options.max_live_parameters,
      .dtype = options.dtype}));
}

Init::~Init() noexcept(false) {
  if (births_ && std::uncaught_exceptions() == births_->exceptions()) {
    births_->finish();
  }
}

} // namespace cairn::zero
