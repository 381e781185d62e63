#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/models/transformer.h>
#include <cairn/nn/mixture.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace cairn::generate {

struct GpuLinear {
  at::Tensor weight; ///< [outputs, inputs]
  at::Tensor bias{}; ///< [outputs]; undefined: there is none
};

struct GpuNorm {
  at::Tensor weight;
  at::Tensor bias{};
};

struct GpuBlock {
  GpuNorm input_norm;
  GpuLinear query_key_value; ///< of each group: its queries, key and value
  GpuLinear dense;
  GpuNorm post_attention_norm;
  std::optional<GpuLinear> gate;
  GpuLinear up;
  GpuLinear down;
  /// The model's own experts, in place of the three above; null: there are
  /// none.
  std::shared_ptr<nn::Mixture> mixture{};
};

/// The weights of a GPT or Llama for a GPU's kernels, all of one type but for
/// those of experts, which stay as they are. They are the model's own memory
/// where it has that type.
struct GpuWeights {
  at::Tensor words;       ///< [vocabulary, hidden]
  at::Tensor positions{}; ///< [positions, hidden]
  std::vector<GpuBlock> blocks;
  GpuNorm final_norm;
  /// Rows are a multiple of eight; those behind the vocabulary are not read.
  GpuLinear head;

  static GpuWeights of(const models::Transformer& model, at::ScalarType type);

  /// Bytes that are read for every token: all but the embeddings and experts.
  std::int64_t bytes_per_token() const;
};

} // namespace cairn::generate
