#pragma once

#include "kernels/internal/cuda/text_rows.h"

#include <cairn/kernels/stretch.h>

#include <cstddef>
#include <cstdint>

namespace cairn::kernels::cuda {

// A step that computes one token of one text as a single kernel, for models
// like GPT-2: LayerNorm before each part, no gates, as many heads of keys as of
// queries, no rotary positions. See cuda.h for what pointers, streams and
// results are.

struct TextStepNorm {
  const void* gamma = nullptr;
  const void* beta = nullptr; ///< may be null
};

struct TextStepProduct {
  const void* weight = nullptr; ///< [outputs, inputs]
  const void* bias = nullptr;   ///< may be null
};

/// The parameters of a layer.
struct TextStepLayer {
  TextStepNorm norms[2]; ///< before attention and before the second part
  /// To queries, keys and values, [heads, 3, head_size, hidden]; from attention
  /// to the residual stream; to the inner activations, and from these.
  TextStepProduct products[4];
};

/// The sizes of a model.
struct TextStepShape {
  int layers = 0;
  int hidden = 0;
  int inner = 0; ///< of the feed-forward part
  int heads = 0;
  int head_size = 0;
  int outputs = 0; ///< scores
  Element element = Element::bf16;
  /// Warps share all columns of a row; otherwise those that one copy brings,
  /// which leaves half of the warps without work where a row is long.
  bool shares_units = true;
};

struct TextStep {
  TextStepShape shape;
  Activation activation = Activation::gelu;
  float epsilon = 1e-5F;
  float scale = 1; ///< of attention's scores
  /// In the GPU's memory: every layer's, and behind them the last norm and the
  /// product to the scores, each the first of its kind.
  const TextStepLayer* layers = nullptr;
  EmbeddedRows embedded;       ///< `y` is not used
  TextRows row;                ///< one
  KeptPages pages;             ///< of the first layer
  std::int64_t layer_step = 0; ///< elements from a layer's keys to the next's
  /// Memory for text_step_message_bytes() that is full of zeros at first.
  void* messages = nullptr;
  /// The number of steps that were started with these messages before.
  std::uint64_t number = 0;
  float* scores = nullptr; ///< [outputs]
};

/// True when the current GPU computes steps of such a model with run_step().
bool takes(const TextStepShape& shape);

std::size_t text_step_message_bytes(const TextStepShape& shape);

[[nodiscard]] const char* run_step(const TextStep& step, void* stream);

} // namespace cairn::kernels::cuda
