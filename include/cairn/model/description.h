#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::model {

/// Architecture as published, which decides on the checkpoints' names.
enum class ModelFamily { gpt2, llama, bert, roberta, t5 };

/// The task of a model, which `cairn pretrain` trains: predict the next token
/// (gpt), fill in masked ones (bert), or turn one text into another (t5).
enum class ModelKind { gpt, bert, t5 };

ModelKind kind_of(ModelFamily family);

/// "gpt2", "llama", …
std::string_view name_of(ModelFamily family);
/// "gpt", "bert" or "t5".
std::string_view name_of(ModelKind kind);
std::optional<ModelKind> model_kind_named(std::string_view name);

enum class NormKind { layer_norm, rms_norm };
/// Place of norms: before attention and MLP (GPT-2, Llama, T5, Megatron's
/// BERT), or after them and after the embeddings (BERT, RoBERTa).
enum class NormPlace { before, after };
enum class PositionKind { learned, rotary, relative };
enum class ActivationKind { gelu, gelu_tanh, relu, silu, squared_relu };

/// YaRN's part of RopeScaling. Pairs of a head's elements that turn more often
/// than `fast_turns` within the original context keep their frequency, those
/// that turn less often than `slow_turns` are slowed down, and the pairs
/// between them are mixed.
struct YarnScaling {
  double fast_turns = 32;
  double slow_turns = 1;
  double attention_factor = 1; ///< multiplies cosine and sine
  bool whole_pairs = true;     ///< the mixing begins and ends at whole pairs

  bool operator==(const YarnScaling&) const = default;
};

/// LongRoPE's part of RopeScaling: the frequency of each pair of a head's
/// elements is divided by a factor of its own. A text that is longer than the
/// original context has other factors, for all of its tokens.
struct LongScaling {
  std::vector<double> short_factors; ///< of texts within the original context
  std::vector<double> long_factors;
  double attention_factor = 1; ///< multiplies cosine and sine

  bool operator==(const LongScaling&) const = default;
};

/// Rotary positions stretched for longer texts: all frequencies are slowed down
/// by `factor` ("linear"), or as in Llama 3.1 only low ones, whose waves are
/// long compared with the original context ("llama3"), or as YarnScaling
/// ("yarn") or LongScaling ("longrope") say. "dynamic" changes nothing up to
/// the model's greatest position, and a text here has no more.
struct RopeScaling {
  std::string kind;
  double factor = 1;
  double low_frequency_factor = 1;
  double high_frequency_factor = 1;
  std::int64_t original_positions = 0;
  std::optional<YarnScaling> yarn{}; ///< set if and only if the kind is "yarn"
  /// Set if and only if the kind is "longrope".
  std::optional<LongScaling> longrope{};

  bool operator==(const RopeScaling&) const = default;
};

/// Randomness of a router in training, besides that of the other options: none,
/// noise on the numbers that the router looks at ("Jitter"), or with top 1 a
/// random choice of the expert ("RSample").
enum class RouterNoise { none, jitter, sample };

/// Layers that have a mixture of experts instead of an MLP. nn/mixture.h
/// explains the choices.
struct ExpertsDescription {
  /// Number of experts: one number for all such layers, or one for each in
  /// turn. A layer with a count of 1 has an MLP.
  std::vector<std::int64_t> counts;
  std::int64_t interval = 2; ///< one in this many layers has experts
  std::int64_t top_k = 1;
  bool residual = false;
  double train_capacity_factor = 1;
  double eval_capacity_factor = 1;
  std::int64_t min_capacity = 4;
  bool drop_tokens = true;
  bool random_selection = true;
  bool sample_second = true;
  RouterNoise noise = RouterNoise::none;
  double loss_coefficient = 0.1; ///< weight of the load-balancing loss

  bool operator==(const ExpertsDescription&) const = default;
};

/// The description of a model. Its layers and parameters
/// (parameters.h), FLOPs (flops.h) and activations (activations.h) follow from
/// this alone.
struct ModelDescription {
  ModelFamily family = ModelFamily::gpt2;
  std::int64_t layers = 0;         ///< T5: layers of the encoder
  std::int64_t decoder_layers = 0; ///< T5 only
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;
  std::int64_t head_size = 0;
  std::int64_t ffn = 0;
  std::int64_t vocabulary = 0; ///< without padding: rows of the embedding
  /// Rows of the embedding with padding; without padding as `vocabulary`.
  std::int64_t padded_vocabulary = 0;
  std::int64_t positions = 0;
  /// Row of the first position (RoBERTa's begins after its padding token).
  std::int64_t position_offset = 0;
  std::int64_t token_types = 0; ///< 0: there is no such embedding

  PositionKind position = PositionKind::learned;
  double rope_theta = 10000;
  /// The first elements of every head that rotary positions turn; 0: all.
  std::int64_t rotary_size = 0;
  std::optional<RopeScaling> rope_scaling;
  std::int64_t relative_buckets = 0;
  std::int64_t relative_distance = 0;

  NormKind norm = NormKind::layer_norm;
  NormPlace norm_place = NormPlace::before;
  double norm_epsilon = 1e-5;
  ActivationKind activation = ActivationKind::gelu;
  bool gated = false; ///< activation(gate x) * (up x), as in SwiGLU
  bool attention_bias = true;
  /// Biases of queries, keys and values alone; not with `attention_bias`.
  bool query_key_value_bias = false;
  bool query_key_norm = false; ///< a norm over each head's query and key
  bool mlp_bias = true;
  /// The MLP reads what attention reads, and both are added together.
  bool parallel_residual = false;

  std::optional<ExpertsDescription> experts; ///< unset: MLPs alone

  bool tied_head = true;      ///< the head uses the embedding's weights
  bool head_bias = false;     ///< Megatron's T5
  bool scaled_output = false; ///< T5: factor hidden^-0.5 before the head
  bool pooler = false;
  bool masked_head = false;        ///< the "mlm" head of BERT and RoBERTa
  bool next_sentence_head = false; ///< BERT

  double dropout = 0;
  double attention_dropout = 0;
  std::optional<std::int64_t> begin_token;
  std::optional<std::int64_t> end_token;
  std::optional<std::int64_t> pad_token;
  std::optional<std::int64_t> decoder_start_token;

  bool operator==(const ModelDescription&) const = default;
};

/// Throws CheckpointError, with `where`, for sizes that no model can have: not
/// positive, beyond reason, or heads that do not divide.
void check(const ModelDescription& description, const std::string& where);

/// Number of experts in a layer (counted from 0); 0 where it has an MLP.
std::int64_t experts_in_layer(
    const ModelDescription& description,
    std::int64_t layer);
/// True if any layer has experts.
bool has_experts(const ModelDescription& description);

/// Tokens of the longest text whose rotary positions have LongRoPE's short
/// factors. Unset where the length of a text changes no frequency.
std::optional<std::int64_t> longest_short_text(
    const ModelDescription& description);

/// True if queries, keys and values have biases.
bool has_query_key_value_bias(const ModelDescription& description);

/// The elements of a head that rotary positions turn.
std::int64_t rotary_elements(const ModelDescription& description);

/// True for models that were trained on texts that all begin with the begin
/// token: Llama and Mixtral, not Qwen.
bool begins_texts(const ModelDescription& description);

/// True if the model scores words, with weights of its own or the embedding's.
bool has_word_head(const ModelDescription& description);

/// Vocabulary rounded up, so that its rows divide over ranks and suit the
/// hardware.
std::int64_t padded_vocabulary(std::int64_t vocabulary, std::int64_t multiple);
/// Description whose vocabulary includes the padding: sizes as memory has them.
ModelDescription with_padding(ModelDescription description);

/// Writes a JSON object with a key for every member; without experts there is
/// no key for them.
std::string to_json(const ModelDescription& description);
/// Reads the text of to_json(). A missing or unknown key is a CheckpointError.
ModelDescription model_description_from_json(
    std::string_view text,
    const std::string& where);

} // namespace cairn::model
