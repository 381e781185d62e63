#include "checkpoints/megatron/group_kinds.h"

#include <algorithm>

namespace cairn::checkpoints::megatron {

namespace {

using Kind = PythonValue::Kind;

/// A number in a dict; nullopt if it is not there.
std::optional<double> real_in(const PythonValue& dict, const char* name) {
  const auto value = dict.find(name);
  return value && (value->is(Kind::real) || value->is(Kind::integer))
      ? std::optional(value->real())
      : std::nullopt;
}

bool is_without_decay(const PythonValue& group) {
  // Old files have the product of the factor and the decay alone.
  const auto factor = real_in(group, "wd_mult");
  return factor.value_or(real_in(group, "weight_decay").value_or(1)) == 0;
}

} // namespace

bool is_embedding_or_output(std::string_view name) {
  return name.ends_with("embedding.word_embeddings.weight") ||
      name.ends_with("word_embeddings_for_head.weight") ||
      name.ends_with("output_layer.weight");
}

bool GroupKind::has(bool is_vector, bool is_embedding_or_output) const {
  return decays != is_vector &&
      (!decays || !decoupled || *decoupled == is_embedding_or_output);
}

std::optional<std::vector<GroupKind>> kinds_of(
    const std::vector<PythonValue>& groups) {
  std::vector<GroupKind> kinds;
  for (const PythonValue& group : groups) {
    kinds.push_back({.decays = !is_without_decay(group)});
  }
  const auto decaying = std::ranges::count(kinds, true, &GroupKind::decays);
  if (groups.empty() || decaying > 2 ||
      static_cast<std::ptrdiff_t>(kinds.size()) - decaying > 1) {
    return std::nullopt;
  }
  if (decaying == 2) { // the group with the usual rates is the first one
    bool first = true;
    for (GroupKind& kind : kinds) {
      if (kind.decays) {
        kind.decoupled = !first;
        first = false;
      }
    }
  }
  return kinds;
}

std::optional<std::vector<OrderedParameter>> in_order_of(
    const std::vector<PythonValue>& groups,
    const std::vector<OrderedParameter>& parameters) {
  const auto kinds = kinds_of(groups);
  if (!kinds) {
    return std::nullopt;
  }
  std::vector<OrderedParameter> order;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::size_t before = order.size();
    // A single group has all parameters.
    for (const bool vectors : {false, true}) {
      for (const OrderedParameter& one : parameters) {
        const bool is_vector = one.shape.size() < 2;
        const bool all = groups.size() == 1 && is_vector == vectors;
        if (all ||
            (groups.size() > 1 && is_vector == vectors &&
             (*kinds)[i].has(is_vector, is_embedding_or_output(one.name)))) {
          order.push_back(one);
        }
      }
    }
    const auto numbers = groups[i].find("params");
    if (!numbers || numbers->size() != order.size() - before) {
      return std::nullopt;
    }
    auto next = static_cast<std::int64_t>(before);
    for (const PythonValue& number : numbers->items()) {
      if (!number.is(Kind::integer) || number.integer() != next++) {
        return std::nullopt;
      }
    }
  }
  return order.size() == parameters.size() ? std::optional(std::move(order))
                                           : std::nullopt;
}

} // namespace cairn::checkpoints::megatron
