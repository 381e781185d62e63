#include "zero/gather/operator_observer.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace cairn::zero {

namespace {

struct Watch {
  UseListener* listener;
  int key;
};

/// The watched storages of the process. libtorch takes plain functions as
/// callbacks, so these look into one table for the process. It is the only one,
/// and entries come and go with their OperatorObserver.
struct Table {
  std::shared_mutex mutex;
  std::unordered_map<const c10::StorageImpl*, Watch> watches;
  at::CallbackHandle handle = 0;
};

Table& table() {
  static Table the_table;
  return the_table;
}

struct Use {
  Watch watch;
  std::int64_t offset;
};

struct Uses : at::ObserverContext {
  std::vector<Use> uses;
};

void add_use(const Table& table, const at::Tensor& tensor, Uses& uses) {
  if (!tensor.defined() || !tensor.has_storage()) {
    return;
  }
  const auto found =
      table.watches.find(tensor.storage().unsafeGetStorageImpl());
  if (found == table.watches.end()) {
    return;
  }
  for (const Use& use : uses.uses) {
    if (use.watch.listener == found->second.listener &&
        use.watch.key == found->second.key) {
      return;
    }
  }
  uses.uses.push_back({found->second, tensor.storage_offset()});
}

void add_uses(const Table& table, const c10::IValue& value, Uses& uses) {
  if (value.isTensor()) {
    add_use(table, value.toTensor(), uses);
  } else if (value.isList()) { // a list of tensors, perhaps of optional ones
    for (const c10::IValue& element : value.toListRef()) {
      if (!element.isTensor()) {
        break;
      }
      add_use(table, element.toTensor(), uses);
    }
  }
}

/// What a listener does is real work on real tensors, also while the program
/// only pretends to compute: a compiler in Python traces a model with operators
/// that make no memory, and would take the listener's for the model's.
struct ListenerScope {
  // Operators that the listener itself runs are not the model's.
  at::RecordFunctionGuard unobserved{false};
  c10::impl::ExcludeDispatchKeyGuard no_tracing{c10::DispatchKeySet(
      {c10::DispatchKey::Python,
       c10::DispatchKey::PythonTLSSnapshot,
       c10::DispatchKey::PythonDispatcher,
       c10::DispatchKey::PreDispatch,
       c10::DispatchKey::Functionalize,
       c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
       c10::DispatchKey::FuncTorchDynamicLayerBackMode,
       c10::DispatchKey::FuncTorchGradWrapper,
       c10::DispatchKey::FuncTorchBatched,
       c10::DispatchKey::FuncTorchVmapMode})};
};

std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& call) {
  Uses uses;
  {
    Table& all = table();
    const std::shared_lock lock(all.mutex);
    for (const c10::IValue& input : call.inputs()) {
      add_uses(all, input, uses);
    }
  }
  if (uses.uses.empty()) {
    return nullptr;
  }
  const ListenerScope scope;
  for (const Use& use : uses.uses) {
    use.watch.listener->before_use(use.watch.key, use.offset);
  }
  return std::make_unique<Uses>(std::move(uses));
}

void after(const at::RecordFunction&, at::ObserverContext* context) {
  if (context == nullptr) {
    return;
  }
  const ListenerScope scope;
  for (const Use& use : static_cast<Uses*>(context)->uses) {
    use.watch.listener->after_use(use.watch.key);
  }
}

} // namespace

void OperatorObserver::watch(const c10::StorageImpl* storage, int key) {
  Table& all = table();
  const std::unique_lock lock(all.mutex);
  if (all.watches.empty()) {
    all.handle =
        at::addGlobalCallback(at::RecordFunctionCallback(before, after)
                                  .needsInputs(true)
                                  .scopes({at::RecordScope::FUNCTION}));
  }
  all.watches[storage] = {&listener_, key};
  storages_.push_back(storage);
}

void OperatorObserver::unwatch(const c10::StorageImpl* storage) {
  Table& all = table();
  const std::unique_lock lock(all.mutex);
  std::erase(storages_, storage);
  if (all.watches.erase(storage) != 0 && all.watches.empty()) {
    at::removeCallback(all.handle);
  }
}

OperatorObserver::~OperatorObserver() {
  Table& all = table();
  const std::unique_lock lock(all.mutex);
  for (const c10::StorageImpl* storage : storages_) {
    all.watches.erase(storage);
  }
  if (!storages_.empty() && all.watches.empty()) {
    at::removeCallback(all.handle);
  }
}

} // namespace cairn::zero
