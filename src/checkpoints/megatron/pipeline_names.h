#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace cairn::checkpoints::megatron {

/// A name in an optimizer of such a pipeline: "2.mlp.dense_4h_to_h.bias". The
/// embedding of a model with a tied head, which belongs to two pieces
/// ("tied_modules.embed.…"), has the number -1.
struct NumberedName {
  std::int64_t piece = 0;
  std::string name;
};
/// nullopt for other names.
std::optional<NumberedName> numbered_name(std::string_view name);

/// The names in the whole model of names of that kind; other names stay.
std::map<std::string, std::string> whole_names(
    const std::set<std::string>& names);

/// Gives tensors of Megatron-DeepSpeed's pipelines, which are known by a number
/// of a piece of the model and a name in it, the names of the whole model. The
/// pieces are the embedding, the layers, the last norm and the head, in this
/// order; others have no weights.
class PipelineNames {
 public:
  /// `names` are the names in each piece.
  explicit PipelineNames(
      const std::map<std::int64_t, std::set<std::string>>& names);

  /// Name in the whole model; nullopt for a copy of the embedding, which the
  /// last stage has for a tied head.
  std::optional<std::string> whole(std::int64_t piece, std::string_view name)
      const;

 private:
  enum class Role { embedding, copy, layer, norm, head };
  struct Piece {
    Role role = Role::layer;
    std::int64_t layer = 0;
  };
  std::map<std::int64_t, Piece> pieces_;
};

} // namespace cairn::checkpoints::megatron
