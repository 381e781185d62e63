#include "nn/linear/compute_type.h"

#include <ATen/autocast_mode.h>

namespace cairn::nn {

at::ScalarType compute_type_of(const at::Tensor& x) {
  const at::DeviceType device = x.device().type();
  return at::autocast::is_autocast_enabled(device)
      ? at::autocast::get_autocast_dtype(device)
      : x.scalar_type();
}

at::Tensor in_compute_type(const at::Tensor& x) {
  if (!x.defined()) {
    return x;
  }
  const at::DeviceType device = x.device().type();
  if (!at::autocast::is_autocast_enabled(device)) {
    return x;
  }
  return at::autocast::cached_cast(
      at::autocast::get_autocast_dtype(device),
      x,
      device);
}

std::optional<at::Tensor> in_compute_type_if_defined(const at::Tensor& x) {
  return x.defined() ? std::optional(in_compute_type(x)) : std::nullopt;
}

} // namespace cairn::nn
