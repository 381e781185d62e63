#pragma once

#include <cairn/checkpoint/model_description.h>

#include <optional>
#include <string>
#include <string_view>

namespace cairn::checkpoints::megatron {

/// Gate and up projection are one tensor there, the gate above.
enum class Half { none, first, second };

struct Name {
  /// "/" parts a dict from its key, as in
  /// "language_model/encoder/layers.0.mlp.dense_h_to_4h.weight".
  std::string path;
  Half half = Half::none;
};

/// Nothing for a parameter that no model of Megatron's has.
std::optional<Name> megatron_name(
    const ModelDescription& description,
    const std::string& parameter);

/// The second copy of the embedding that the last pipeline stage has.
inline constexpr std::string_view tied_head_path =
    "word_embeddings_for_head/weight";

/// A dotted name as today's Megatron spells it, whatever version wrote it.
std::string modern_name(std::string name);

/// Buffers.
bool is_ignored(std::string_view name);

/// A name of a layer, taken apart: "language_model.encoder.layers." 3
/// ".mlp.dense_h_to_4h.weight".
struct LayerName {
  std::string_view stack;
  std::int64_t layer = 0;
  std::string_view rest;
};
std::optional<LayerName> layer_name(std::string_view name);

} // namespace cairn::checkpoints::megatron
