#pragma once

#include "generate/gpu_cache.h"
#include "generate/gpu_weights.h"
#include "kernels/internal/cuda/text_step.h"

#include <ATen/core/Tensor.h>
#include <cairn/model/description.h>

#include <cstdint>
#include <memory>

namespace cairn::generate {

/// A step of one text as a single kernel: see
/// kernels/internal/cuda/text_step.h.
class WholeStep {
 public:
  /// Null if the kernel does not compute such a model. `weights` outlive this.
  /// `shares_units`: see TextStepShape.
  static std::unique_ptr<WholeStep> make(
      const model::ModelDescription& model,
      const GpuWeights& weights,
      bool shares_units);

  /// Computes the token of the row, and the scores of the next one: [1, rows of
  /// the head], floats. All of it is queued on the stream.
  void queue(
      const kernels::cuda::TextRows& row,
      const GpuCache& cache,
      const at::Tensor& scores,
      void* stream);

 private:
  WholeStep(
      const model::ModelDescription& model,
      const GpuWeights& weights,
      const kernels::cuda::TextStepShape& shape);

  kernels::cuda::TextStep step_;
  at::Tensor layers_;   ///< TextStepLayer of every layer, as bytes
  at::Tensor messages_; ///< of the blocks to each other, as bytes
};

} // namespace cairn::generate
