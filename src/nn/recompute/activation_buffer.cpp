#include "nn/recompute/activation_buffer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <cairn/base/error.h>

#include <fmt/format.h>

#include <numeric>

namespace cairn::nn {

at::Tensor ActivationBuffer::take(
    std::size_t position,
    std::int64_t numel,
    const at::TensorOptions& options) {
  const at::ScalarType dtype = c10::typeMetaToScalarType(options.dtype());
  const std::lock_guard lock(mutex_);
  Row& row = rows_[{position, numel, dtype, options.device().str()}];
  if (!row.memory.defined()) {
    row.memory = at::empty({places_, numel}, options);
    row.free.resize(static_cast<std::size_t>(places_));
    std::iota(row.free.rbegin(), row.free.rend(), 0);
  }
  if (row.free.empty()) {
    throw ConfigError(
        {.what = "more checkpoints than the buffer has places for",
         .where = "activation_checkpointing.number_checkpoints",
         .values = fmt::format("{}", places_),
         .remedy = "count every checkpoint of a forward pass, nested ones too, "
                   "and of all passes before their backward"});
  }
  const std::int64_t place = row.free.back();
  row.free.pop_back();
  const auto give_back = [self = shared_from_this(), &row, place](void*) {
    const std::lock_guard again(self->mutex_);
    row.free.push_back(place);
  };
  return at::from_blob(
      row.memory.select(0, place).mutable_data_ptr(),
      {numel},
      give_back,
      at::TensorOptions().dtype(dtype).device(options.device()));
}

} // namespace cairn::nn
