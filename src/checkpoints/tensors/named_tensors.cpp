#include "checkpoints/tensors/named_tensors.h"

#include "checkpoints/tensors/lazy_operations.h"

#include <cairn/base/error.h>

#include <string>
#include <utility>

namespace cairn::checkpoints {

namespace {

using Kind = PythonValue::Kind;

/// Limits, because dicts may contain themselves, or one another so often that
/// it never ends.
constexpr int deepest_value = 100;
constexpr std::size_t most = 5'000'000;

class Collector {
 public:
  void add(const PythonValue& dict, const std::string& prefix, int depth) {
    for (const auto& [key, value] : dict.entries()) {
      if (depth > deepest_value || ++visited_ > most) {
        throw CheckpointError(
            {.what = "a dict that is too large or nested too deeply"});
      }
      const std::string name =
          prefix + (key.is(Kind::text) ? key.text() : key.describe(0));
      if (value.is(Kind::tensor)) {
        found_.emplace_back(name, lazy_tensor(value));
      } else if (value.is(Kind::dict)) {
        add(value, name + ".", depth + 1);
      }
    }
  }
  NamedTensors take() { return std::move(found_); }

 private:
  NamedTensors found_;
  std::size_t visited_ = 0;
};

} // namespace

LazyTensor lazy_tensor(const PythonValue& tensor) {
  const StoredTensor& stored = tensor.stored();
  return {stored.type, stored.sizes, [tensor] {
            return tensor.borrowed_tensor();
          }};
}

NamedTensors named_tensors(const PythonValue& dict) {
  Collector collector;
  collector.add(dict, "", 0);
  return collector.take();
}

LazyTensor as_type(LazyTensor tensor, at::ScalarType type) {
  if (tensor.type == type) {
    return tensor;
  }
  std::vector<std::int64_t> shape = tensor.shape;
  return changed(
      std::move(tensor),
      type,
      std::move(shape),
      [type](const at::Tensor& rows) { return rows.to(type); });
}

PythonValue dict_of_tensors(const NamedTensors& tensors) {
  std::vector<PythonValue::Member> members;
  for (const auto& [name, tensor] : tensors) {
    members.emplace_back(name, PythonValue::tensor(tensor));
  }
  return PythonValue::dict_of(std::move(members));
}

} // namespace cairn::checkpoints
