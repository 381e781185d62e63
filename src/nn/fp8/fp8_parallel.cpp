#include "nn/fp8/fp8_parallel.h"

#include "nn/fp8/fp8_linear.h"
#include "nn/moe/token_shares.h"

#include <ATen/TensorOperators.h>
#include <cairn/nn/tensor_parallel.h>

#include <vector>

namespace cairn::nn {

at::Tensor fp8_column_linear(
    const LayerInput& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const distributed::ProcessGroup& group,
    bool split_tokens,
    const Fp8Use& fp8) {
  if (group.size() == 1) {
    return fp8_linear(x, weight, bias, fp8);
  }
  const at::Tensor all = split_tokens ? gather_tokens(x.x, group) : x.x;
  return fp8_linear(copy_to_group(all, group), weight, bias, fp8);
}

at::Tensor fp8_row_linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const distributed::ProcessGroup& group,
    bool split_tokens,
    const Fp8Use& fp8) {
  if (group.size() == 1) {
    return fp8_linear(x, weight, bias, fp8);
  }
  const at::Tensor part = fp8_linear(flat_tokens(x), weight, {}, fp8);
  const std::vector<std::int64_t> shape{x.size(0), x.size(1), weight.size(0)};
  const at::Tensor sum = split_tokens
      ? scatter_tokens(part.view(shape), group)
      : reduce_from_group(part, group).view(shape);
  return bias.defined() ? sum + bias : sum;
}

} // namespace cairn::nn
