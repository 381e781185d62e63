#pragma once

#include <cairn/nn/fp8_scaling.h>
#include <cairn/nn/tensor_parallel.h>

#include <cstdint>

namespace cairn::nn {

struct LinearOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = true;
  /// Where ranks split the tokens: they travel beside the products.
  bool overlap_tokens = false;
};

/// A linear layer of which each rank has a part of the outputs.
class ColumnLinear : public Fp8Layer {
 public:
  ColumnLinear(const LayerContext& context, const LinearOptions& options);
  at::Tensor forward(const LayerInput& x) const;
  /// True when a norm may round its result, which is like `x`, for this layer:
  /// the unit is known, and no rank needs it in 16 bits.
  bool takes_rounded(const at::Tensor& x) const;

  const at::Tensor& weight() const { return weight_; }
  const at::Tensor& bias() const { return bias_; } ///< undefined without bias
  TokenSplit tokens() const { return tokens_; }

 private:
  distributed::ProcessGroup group_;
  TokenSplit tokens_;
  at::Tensor weight_;
  at::Tensor bias_;
};

/// A linear layer of which each rank has a part of the inputs. All ranks get
/// the sum.
class RowLinear : public Fp8Layer {
 public:
  RowLinear(const LayerContext& context, const LinearOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

  const at::Tensor& weight() const { return weight_; }
  const at::Tensor& bias() const { return bias_; } ///< undefined without bias

 private:
  distributed::ProcessGroup group_;
  TokenSplit tokens_;
  at::Tensor weight_;
  at::Tensor bias_;
};

/// A linear layer that is the same on every rank, for inputs that are.
class Linear : public Layer {
 public:
  Linear(const LayerContext& context, const LinearOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

} // namespace cairn::nn
