#include "monitor/measures/parameter_watch.h"

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <mutex>
#include <utility>

namespace cairn::monitor {
namespace {

using Module = std::shared_ptr<const std::string>;

/// A tensor that stands for a parameter. Its address is not given to another
/// one while this is kept.
struct Standing {
  c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
  Module module;
};

/// The tensors and operators that a living ParameterWatch knows of. They are
/// global because libtorch takes plain functions as callbacks.
struct Watched {
  std::mutex mutex{};
  std::unordered_map<const c10::TensorImpl*, Standing> tensors{};
  OperatorModules operators{};

  void add(const at::Tensor& tensor, const Module& module) {
    tensors.try_emplace(
        tensor.unsafeGetTensorImpl(),
        Standing{
            c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()),
            module});
  }

  void clear() {
    tensors.clear();
    operators.clear();
  }
};
Watched watched;

/// Calls visit(tensor) for the tensors of a value: itself, or those of a list.
template <typename Visit>
void for_each_tensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (const at::Tensor& tensor = value.toTensor(); tensor.defined()) {
      visit(tensor);
    }
  } else if (value.isList()) { // perhaps of tensors, or of optional ones
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor() && element.toTensor().defined()) {
        visit(element.toTensor());
      }
    }
  }
}

/// The module whose parameters are all that an operator takes.
struct OnlyModule : at::ObserverContext {
  explicit OnlyModule(Module the_module) : module(std::move(the_module)) {}
  Module module;
};

std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& call) {
  Module first;
  bool alone = true; // no other tensors are taken
  const std::lock_guard lock(watched.mutex);
  for (const c10::IValue& input : call.inputs()) {
    for_each_tensor(input, [&](const at::Tensor& tensor) {
      const auto found = watched.tensors.find(tensor.unsafeGetTensorImpl());
      if (found == watched.tensors.end()) {
        alone = false;
        return;
      }
      if (!first) {
        first = found->second.module;
      }
      alone &= *first == *found->second.module;
    });
  }
  if (!first) {
    return nullptr;
  }
  watched.operators.emplace(call.handle(), *first);
  return alone ? std::make_unique<OnlyModule>(std::move(first)) : nullptr;
}

void after(const at::RecordFunction& call, at::ObserverContext* context) {
  if (context == nullptr) {
    return;
  }
  const std::lock_guard lock(watched.mutex);
  for (const c10::IValue& output : call.outputs()) {
    for_each_tensor(output, [&](const at::Tensor& tensor) {
      watched.add(tensor, static_cast<OnlyModule*>(context)->module);
    });
  }
}

} // namespace

struct ParameterWatch::State {
  at::CallbackHandle callback{};
};

ParameterWatch::ParameterWatch(const std::vector<OwnedParameter>& parameters)
    : state_(std::make_unique<State>()) {
  {
    const std::lock_guard lock(watched.mutex);
    watched.clear();
    for (const OwnedParameter& each : parameters) {
      watched.add(each.tensor, std::make_shared<std::string>(each.module));
    }
  }
  state_->callback =
      at::addGlobalCallback(at::RecordFunctionCallback(before, after)
                                .needsInputs(true)
                                .needsOutputs(true)
                                .needsIds(true)
                                .scopes({at::RecordScope::FUNCTION}));
}

ParameterWatch::~ParameterWatch() {
  at::removeCallback(state_->callback);
  const std::lock_guard lock(watched.mutex);
  watched.clear();
}

OperatorModules ParameterWatch::take() {
  const std::lock_guard lock(watched.mutex);
  return std::exchange(watched.operators, {});
}

} // namespace cairn::monitor
