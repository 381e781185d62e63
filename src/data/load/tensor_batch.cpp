#include <cairn/data/tensor_batch.h>

#include <cairn/base/error.h>

#include <ATen/ops/from_blob.h>

#include <algorithm>

namespace cairn::data {

namespace {

/// The largest number of values in a row that are not below 0.
std::int64_t most_in_row(const at::Tensor& labels) {
  const auto* value = labels.const_data_ptr<std::int64_t>();
  std::int64_t most = 0;
  for (std::int64_t row = 0; row < labels.size(0); ++row) {
    const auto* const end = value + labels.size(1);
    most = std::max(most, std::count_if(value, end, [](std::int64_t each) {
                      return each >= 0;
                    }));
    value = end;
  }
  return most;
}

} // namespace

at::Tensor to_tensor(const BatchField& field) {
  const at::ScalarType type =
      field.type == ElementType::int64 ? at::kLong : at::kFloat;
  return at::from_blob(
      field.memory.get(),
      {static_cast<std::int64_t>(field.rows),
       static_cast<std::int64_t>(field.columns)},
      [memory = field.memory](void*) {},
      at::TensorOptions().dtype(type));
}

TensorBatch::TensorBatch(const Batch& batch)
    : indices(batch.indices), consumed_samples(batch.consumed_samples) {
  for (const BatchField& field : batch.fields) {
    tensors.emplace_back(field.name, to_tensor(field));
  }
}

const at::Tensor& TensorBatch::operator[](std::string_view name) const {
  for (const auto& [field, tensor] : tensors) {
    if (field == name) {
      return tensor;
    }
  }
  throw InternalError(
      {.what = "a batch has no such field", .values = std::string(name)});
}

TensorBatch TensorBatch::to(at::Device device) const {
  TensorBatch moved = *this;
  for (auto& [field, tensor] : moved.tensors) {
    if (field == "labels" && tensor.is_cpu() && !device.is_cpu()) {
      moved.most_labels = most_in_row(tensor);
    }
    tensor = tensor.to(device, tensor.scalar_type(), /*non_blocking=*/true);
  }
  return moved;
}

} // namespace cairn::data
