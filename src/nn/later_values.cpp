#include <cairn/nn/later_values.h>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>
#include <cairn/base/error.h>

#include <algorithm>
#include <utility>

namespace cairn::nn {

void LaterValues::set(const std::string& name, Fill fill) {
  fills_[name] = std::move(fill);
}

void LaterValues::fill(
    const std::string& name,
    std::int64_t first,
    const at::Tensor& values) const {
  const auto found = fills_.find(name);
  if (found == fills_.end()) {
    throw InternalError(
        {.what = "a parameter without memory has no values", .where = name});
  }
  found->second(first, values);
}

at::Tensor without_memory(
    at::IntArrayRef sizes,
    const at::TensorOptions& options) {
  // A parameter is no view of another tensor, as autograd sees it.
  const at::AutoDispatchBelowADInplaceOrView plain;
  return at::zeros({1}, options).expand(sizes);
}

bool is_without_memory(const at::Tensor& tensor) {
  return tensor.numel() > 1 &&
      std::ranges::all_of(tensor.strides(), [](std::int64_t stride) {
           return stride == 0;
         });
}

} // namespace cairn::nn
