#pragma once

#include <cstdint>

// Attention of one head, built on our own matrix products; exists where
// has_matrix_product() is true.

namespace cairn::kernels::cpu {

/// Rows of `size` values each (HeadShape), `step` values apart.
template <typename T>
struct HeadRows {
  T* data = nullptr;
  std::int64_t step = 0;
};

struct HeadShape {
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t size = 0; ///< of a query, a key and a value
  float scale = 1;
  bool causal = false; ///< query i sees keys up to i
};

struct HeadInput {
  HeadRows<const float> query;
  HeadRows<const float> key;
  HeadRows<const float> value;
};

/// Computes the output of one head. `log_sum` gets the log of the sum of each
/// query's exponentials, which the backward pass needs.
void attend_head(
    const HeadShape& shape,
    const HeadInput& input,
    HeadRows<float> output,
    float* log_sum);

struct HeadGradients {
  HeadRows<float> query; ///< overwritten
  HeadRows<float> key;   ///< increased
  HeadRows<float> value; ///< increased
};

void attend_head_backward(
    const HeadShape& shape,
    const HeadInput& input,
    HeadRows<const float> output,
    HeadRows<const float> output_gradient,
    const float* log_sum,
    const HeadGradients& gradients);

} // namespace cairn::kernels::cpu
