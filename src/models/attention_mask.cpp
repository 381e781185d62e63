#include "models/attention_mask.h"

#include <ATen/ops/ones.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

namespace cairn::models {

at::Tensor causal_mask(std::int64_t sequence, at::Device device) {
  return at::ones(
             {1, 1, sequence, sequence},
             at::TensorOptions(at::kBool).device(device))
      .tril_();
}

at::Tensor attention_mask(const at::Tensor& mask, bool causal) {
  if (!mask.defined()) {
    return {};
  }
  if (mask.dim() == 3) {
    return mask.to(at::kBool).unsqueeze(1);
  }
  if (mask.dim() != 2) {
    throw UsageError(
        {.what = "an attention mask has two or three dimensions",
         .values = fmt::format("{}", mask.dim())});
  }
  const at::Tensor keys = mask.ne(0).view({mask.size(0), 1, 1, mask.size(1)});
  return causal ? keys.logical_and(causal_mask(mask.size(1), mask.device()))
                : keys;
}

} // namespace cairn::models
