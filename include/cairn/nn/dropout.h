#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/nn/layer.h>

#include <cstdint>
#include <string_view>

namespace cairn::nn {

/// The numbers of consecutive samples of a run, [count]. They tell dropout
/// which sample it has.
at::Tensor sample_numbers(
    std::int64_t first,
    std::int64_t count,
    at::Device device);

/// Random numbers of samples, [count], from the device's default generator: for
/// samples that nobody counts. Ranks whose generators have the same state draw
/// the same ones.
at::Tensor drawn_samples(std::int64_t count, at::Device device);

/// Zeroes elements of hidden states with some probability, and scales the
/// others so that the mean stays.
///
/// Whether an element is dropped is a function of LayerContext::dropout_seed,
/// the path in the model, the number of the sample in the run, the position in
/// the sequence and the number of the feature. It does not depend on ranks,
/// micro batches, stages or what was drawn before, and nothing is kept for the
/// backward pass but a few numbers.
class Dropout {
 public:
  /// `name` tells the dropouts of a layer apart.
  Dropout(
      const LayerContext& context,
      std::string_view name,
      double probability);

  bool is_on() const { return probability_ > 0; }

  /// Drops elements of [batch, tokens, hidden], where LayerContext tells which
  /// tokens a rank has. `samples` are numbers of the samples, [batch];
  /// undefined: they are drawn. `text` tells the texts of a sample apart, where
  /// it has several.
  at::Tensor forward(
      const at::Tensor& x,
      const at::Tensor& samples,
      std::int64_t text = 0) const;

 private:
  double probability_;
  std::uint64_t key_;
  int parts_;    ///< ranks that split the tokens
  int own_part_; ///< which of them this is
  ContextParallel sequence_;
};

} // namespace cairn::nn
