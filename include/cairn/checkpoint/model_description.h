#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::checkpoints {

enum class ModelFamily { gpt2, llama, bert, roberta, t5 };
enum class NormKind { layer_norm, rms_norm };
/// Before attention and MLP (GPT-2, Llama, T5, Megatron's BERT), or after them
/// and after the embeddings (BERT, RoBERTa).
enum class NormPlace { before, after };
enum class PositionKind { learned, rotary, relative };
enum class ActivationKind { gelu, gelu_tanh, relu, silu };

/// Rotary positions stretched for longer texts, as in Llama 3.1 ("llama3") or
/// by a plain factor ("linear").
struct RopeScaling {
  std::string kind;
  double factor = 1;
  double low_frequency_factor = 1;
  double high_frequency_factor = 1;
  std::int64_t original_positions = 0;

  bool operator==(const RopeScaling&) const = default;
};

/// What is drawn when a router chooses, in training: nothing more than the rest
/// says, the numbers that it looks at ("Jitter"), or with top 1 the expert
/// ("RSample").
enum class RouterNoise { none, jitter, sample };

/// Layers that have a mixture of experts instead of an MLP. See
/// nn/routing.h for what the choices mean.
struct ExpertsDescription {
  /// Of every such layer, or of each in turn; a layer with one has an MLP.
  std::vector<std::int64_t> counts;
  std::int64_t interval = 2; ///< every so many layers is one
  std::int64_t top_k = 1;
  bool residual = false;
  double train_capacity_factor = 1;
  double eval_capacity_factor = 1;
  std::int64_t min_capacity = 4;
  bool drop_tokens = true;
  bool random_selection = true;
  bool sample_second = true;
  RouterNoise noise = RouterNoise::none;
  double loss_coefficient = 0.1; ///< of the load-balancing loss

  bool operator==(const ExpertsDescription&) const = default;
};

/// What a model is made of, whoever saved it: with it and the names of
/// model_parameters.h weights pass from one format to another.
struct ModelDescription {
  ModelFamily family = ModelFamily::gpt2;
  std::int64_t layers = 0;         ///< of T5: of the encoder
  std::int64_t decoder_layers = 0; ///< T5 only
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;
  std::int64_t head_size = 0;
  std::int64_t ffn = 0;
  std::int64_t vocabulary = 0; ///< without padding: rows of the embedding here
  /// Rows with padding where the model was trained so; else as `vocabulary`.
  std::int64_t padded_vocabulary = 0;
  std::int64_t positions = 0;
  /// Row of the first position (RoBERTa begins after its padding token).
  std::int64_t position_offset = 0;
  std::int64_t token_types = 0; ///< 0: no such embedding

  PositionKind position = PositionKind::learned;
  double rope_theta = 10000;
  std::optional<RopeScaling> rope_scaling;
  std::int64_t relative_buckets = 0;
  std::int64_t relative_distance = 0;

  NormKind norm = NormKind::layer_norm;
  NormPlace norm_place = NormPlace::before;
  double norm_epsilon = 1e-5;
  ActivationKind activation = ActivationKind::gelu;
  bool gated = false; ///< activation(gate x) * (up x), as in SwiGLU
  bool attention_bias = true;
  bool mlp_bias = true;

  std::optional<ExpertsDescription> experts; ///< GPT and Llama

  bool tied_head = true;      ///< the head's weights are the embedding's
  bool head_bias = false;     ///< Megatron's T5
  bool scaled_output = false; ///< T5: times hidden^-0.5 before the head
  bool pooler = false;
  bool masked_head = false;        ///< BERT's and RoBERTa's "mlm"
  bool next_sentence_head = false; ///< BERT

  double dropout = 0;
  double attention_dropout = 0;
  std::optional<std::int64_t> begin_token;
  std::optional<std::int64_t> end_token;
  std::optional<std::int64_t> pad_token;
  std::optional<std::int64_t> decoder_start_token;

  bool operator==(const ModelDescription&) const = default;
};

/// Throws CheckpointError, with `where`, for what no model can be: sizes that
/// are not positive or beyond reason, heads that do not divide.
void check(const ModelDescription& description, const std::string& where);

/// Of layers counted from 0: its experts, 0 where it has an MLP.
std::int64_t experts_in_layer(
    const ModelDescription& description,
    std::int64_t layer);

/// A JSON object with a key for every member, and back. Keys that are missing
/// or unknown are a CheckpointError. Without experts there is no key for them.
std::string to_json(const ModelDescription& description);
ModelDescription model_description_from_json(
    std::string_view text,
    const std::string& where);

/// "gpt2", "llama", …
std::string_view name_of(ModelFamily family);

} // namespace cairn::checkpoints
