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
  /// True: ModelInput::first_seen tells the documents apart, which the ring
  /// takes. False: a mask does.
  bool documents_without_mask = false;
};

/// The input for the model's pretraining loss, from a batch of GptDataset,
/// BertDataset, MlmDataset or T5Dataset, whichever suits the model.
///
///   engine.forward<ModelOutput>(pretraining_input(description, batch)).loss
ModelInput pretraining_input(
    const ModelDescription& description,
    const data::TensorBatch& batch,
    const PretrainingOptions& options = {});

/// A mask, [batch, sequence, sequence]: a token sees itself and the tokens
/// before it since the last `end`.
at::Tensor document_mask(const at::Tensor& tokens, std::int64_t end);

/// The position at which each token's document begins, [batch, sequence].
at::Tensor document_begins(const at::Tensor& tokens, std::int64_t end);

} // namespace cairn::models
