#pragma once

#include "generate/internal/model_part.h"
#include "kernels/internal/cpu/decoder_rows.h"

#include <ATen/core/Tensor.h>
#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/generate/text_batch.h>

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace cairn::generate {

/// A linear layer on the CPU. Its weight is the model's own memory where the
/// model has the numbers that are asked for.
struct LinearWeights {
  at::Tensor weight;    ///< [outputs, inputs]
  at::Tensor factors{}; ///< [outputs], fp32, int8 only
  at::Tensor bias{};    ///< [outputs], fp32
  kernels::cpu::WeightMatrix matrix{};
  std::int64_t outputs = 0;

  const float* bias_data() const {
    return bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  }
};

struct NormWeights {
  at::Tensor weight; ///< fp32
  at::Tensor bias{}; ///< fp32

  const float* bias_data() const {
    return bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  }
};

struct MlpWeights {
  std::optional<LinearWeights> gate;
  LinearWeights up;
  LinearWeights down;
};

/// A mixture of experts in place of an MLP, as nn::Mixture has it.
struct MixtureWeights {
  LinearWeights router; ///< fp32: which experts a token gets hangs on it
  std::int64_t top_k = 1;
  std::vector<MlpWeights> experts;
  /// The MLP beside the experts, and the layer that says how much each counts.
  struct Residual {
    MlpWeights mlp;
    LinearWeights coefficient; ///< fp32
  };
  std::optional<Residual> residual{};
};

using BlockMlp = std::variant<MlpWeights, MixtureWeights>;

struct BlockWeights {
  NormWeights input_norm;
  LinearWeights query_key_value; ///< of each group: its queries, key and value
  NormWeights query_norm;        ///< undefined if there is none
  NormWeights key_norm;
  LinearWeights dense;
  NormWeights post_attention_norm;
  BlockMlp mlp;
};

/// Attention to the encoder's text.
struct CrossWeights {
  LinearWeights query;
  LinearWeights key_value; ///< of each head: its key and value
  LinearWeights dense;
  NormWeights norm; ///< behind it
};

/// The weights of a GPT or Llama, or of a part of one, on the CPU.
struct DecoderWeights {
  at::Tensor words{};     ///< [words of the part, hidden], fp32, fp16 or bf16
  at::Tensor positions{}; ///< [positions, hidden], fp32
  std::vector<BlockWeights> blocks{}; ///< of the part's layers
  NormWeights final_norm{};
  LinearWeights head{}; ///< without padding of the vocabulary

  /// `numbers`: unset means as the model has them, and fp32 for fp16.
  static DecoderWeights of(
      const models::Transformer& model,
      std::optional<WeightType> numbers);

  /// Reads a part of a model from a checkpoint, a parameter at a time, and
  /// takes its numbers as `dtype` first.
  static DecoderWeights read(
      const checkpoints::NamedTensors& tensors,
      const models::ModelDescription& model,
      const ModelPart& part,
      at::ScalarType dtype,
      std::optional<WeightType> numbers);

  /// Bytes that are read for every token: all but the embeddings and the
  /// experts that it does not get.
  std::int64_t bytes_per_token() const;
};

/// The weights of a T5 on the CPU.
struct T5Weights {
  struct Stack {
    at::Tensor relative{}; ///< [buckets, heads], fp32, or undefined
    std::vector<BlockWeights> blocks{};
    std::vector<CrossWeights> crosses{}; ///< decoder: of each block
    NormWeights final_norm{};
  };
  at::Tensor words;       ///< [vocabulary, hidden]
  at::Tensor positions{}; ///< [positions, hidden], fp32, or undefined
  Stack encoder;
  Stack decoder;
  LinearWeights head;

  /// `numbers`: as DecoderWeights has them.
  static T5Weights of(
      const models::Transformer& model,
      std::optional<WeightType> numbers);
};

/// The weight in int8: rows are divided by a factor, so that the largest number
/// of each row becomes 127 or -127.
LinearWeights int8_weights(const at::Tensor& weight);

} // namespace cairn::generate
