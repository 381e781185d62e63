#pragma once

#include "checkpoints/megatron/rank_tensors.h"

#include <cairn/checkpoints/python_value.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace cairn::checkpoints::megatron {

/// The parameters that a group of Megatron's optimizer has.
struct GroupKind {
  bool decays = true; ///< matrices; false: vectors
  /// With a learning rate of their own: word embeddings and the output layer.
  /// Unset where no group has one.
  std::optional<bool> decoupled{};

  bool has(bool is_vector, bool is_embedding_or_output) const;
};

/// True for the parameters that may have a learning rate of their own, by a
/// name with dots: the word embeddings, also where they are the head of another
/// stage, and the output layer.
bool is_embedding_or_output(std::string_view name);

/// The kinds of groups, of which none is there twice. nullopt for others.
std::optional<std::vector<GroupKind>> kinds_of(
    const std::vector<PythonValue>& groups);

/// The parameters in the order of the groups. nullopt if the numbers in the
/// groups are not those of such an order.
std::optional<std::vector<OrderedParameter>> in_order_of(
    const std::vector<PythonValue>& groups,
    const std::vector<OrderedParameter>& parameters);

} // namespace cairn::checkpoints::megatron
