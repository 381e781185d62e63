#pragma once

#include <cairn/checkpoints/megatron.h>
#include <cairn/model/description.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::checkpoints::megatron {

/// Part of a tensor that holds both the gate and the up projection in Megatron,
/// the gate first.
enum class Half { none, first, second };

struct Name {
  /// Path of the tensor; "/" separates a dict from its key, as in
  /// "language_model/encoder/layers.0.mlp.dense_h_to_4h.weight".
  std::string path;
  Half half = Half::none;
};

/// Megatron's name of a parameter; nullopt for one that no model of Megatron's
/// has.
std::optional<Name> megatron_name(
    const model::ModelDescription& description,
    const std::string& parameter,
    MegatronNames names);

/// Name of the word embedding in a file.
std::string_view word_embedding_name(MegatronNames names);

/// Path of the second copy of the embedding, on the last pipeline stage.
std::string_view tied_head_path(MegatronNames names);

/// One spelling of a dotted name, whatever version wrote it: that of
/// megatron_name() for `legacy` or `core_local`, with dots for slashes.
std::string modern_name(std::string name);

/// True for buffers, and for second names of tensors.
bool is_ignored(std::string_view name);

/// The second name of the bias of a T5's head under Megatron-Core's names, and
/// the first one. That of a BERT has the second name alone.
inline constexpr std::string_view second_head_bias = "output_layer.bias";
inline constexpr std::string_view t5_head_bias = "lm_head.output_layer.bias";

/// The positions of a model of Megatron-Core, and their second name in a T5.
inline constexpr std::string_view core_positions =
    "embedding.position_embeddings.weight";
inline constexpr std::string_view second_core_positions =
    "position_embeddings.weight";

/// A number of layers far beyond any model's: it bounds what files may claim.
inline constexpr std::int64_t most_layers = 10'000;

/// The parts of a layer's name: "language_model.encoder.layers." 3
/// ".mlp.dense_h_to_4h.weight".
struct LayerName {
  std::string_view stack;
  std::int64_t layer = 0;
  std::string_view rest;
};
std::optional<LayerName> layer_name(std::string_view name);

} // namespace cairn::checkpoints::megatron
