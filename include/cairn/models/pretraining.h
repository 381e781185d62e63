#pragma once

#include <cairn/data/tensor_batch.h>
#include <cairn/models/transformer.h>

#include <cstdint>
#include <optional>

namespace cairn::models {

struct PretrainingOptions {
  /// Attention stays within documents, which end with this token
  /// (--reset-attention-mask).
  std::optional<std::int64_t> reset_attention_after{};
};

/// What the model makes its pretraining loss of, from a batch of GptDataset,
/// BertDataset, MlmDataset or T5Dataset, whichever the model is for.
///
///   engine.forward<ModelOutput>(pretraining_input(description, batch)).loss
ModelInput pretraining_input(
    const ModelDescription& description,
    const data::TensorBatch& batch,
    const PretrainingOptions& options = {});

/// Who sees whom, [batch, sequence, sequence], where a token sees itself and
/// what comes before it since the last `end`.
at::Tensor document_mask(const at::Tensor& tokens, std::int64_t end);

} // namespace cairn::models
