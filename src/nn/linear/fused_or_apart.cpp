#include "nn/linear/fused_or_apart.h"

#include "base/internal/recorded_names.h"
#include "kernels/internal/cuda/product.h"
#include "nn/linear/gpu_kernel.h"

#include <ATen/Context.h>
#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>

#include <array>

namespace cairn::nn {
namespace {

enum Way { fused_way, apart_way };

} // namespace

FusedOrApart::FusedOrApart(
    const char* what,
    const at::Tensor& left,
    const at::Tensor& right)
    : device_(left.device()) {
  if (is_on_gpu(left) && left.numel() > 0 &&
      kernels::cuda::pays_to_try(left.size(0), right.size(1), left.size(1)) &&
      !at::globalContext().deterministicAlgorithms()) {
    key_ = fmt::format(
        "{} {}x{}x{} {}",
        what,
        left.size(0),
        right.size(1),
        left.size(1),
        c10::toString(left.scalar_type()));
  }
}

bool FusedOrApart::apart_is_faster() const {
  const c10::OptionalDeviceGuard guard(device_);
  return !key_.empty() && kernels::cuda::known_way(key_) == apart_way;
}

void FusedOrApart::try_both(
    const std::function<void()>& fused,
    const std::function<void()>& apart) const {
  const c10::OptionalDeviceGuard on_gpu(device_);
  if (key_.empty() || kernels::cuda::known_way(key_)) {
    return;
  }
  RECORD_FUNCTION(base::trial_operator, c10::ArrayRef<const c10::IValue>{});
  const at::RecordFunctionGuard unseen(false);
  const std::array ways{fused, apart};
  kernels::cuda::try_ways(
      key_,
      ways,
      kernels::cuda::current_stream(device_.index()));
}

} // namespace cairn::nn
