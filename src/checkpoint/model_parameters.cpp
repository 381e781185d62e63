#include <cairn/checkpoint/model_parameters.h>

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string_view>

namespace cairn::checkpoints {

namespace {

using D = ModelDescription;

enum class Size {
  hidden,
  vocabulary,
  positions,
  token_types,
  query,           ///< all query heads
  key_value,       ///< a key and a value per key/value head
  query_key_value, ///< both
  ffn,
  heads,
  relative_buckets,
  two
};

/// Layers one after the other: T5 has two such stacks.
struct Stack {
  std::string_view prefix;
  std::int64_t layers = 0;
  bool cross_attention = false;
};

bool always(const D&, const Stack&) {
  return true;
}
bool never(const D&, const Stack&) {
  return false;
}
bool norms_before(const D& d, const Stack&) {
  return d.norm_place == NormPlace::before;
}
bool norms_after(const D& d, const Stack&) {
  return d.norm_place == NormPlace::after;
}
bool crosses(const D&, const Stack& stack) {
  return stack.cross_attention;
}
bool norm_bias(const D& d, const Stack&) {
  return d.norm == NormKind::layer_norm;
}
bool attention_bias(const D& d, const Stack&) {
  return d.attention_bias;
}
bool mlp_bias(const D& d, const Stack&) {
  return d.mlp_bias;
}

using Condition = bool (*)(const D&, const Stack&);

/// A name that ends in ".*" is a weight of that shape and, where `bias` says
/// so, a bias as long as its rows.
struct Rule {
  std::string_view name;
  Size rows;
  std::optional<Size> columns;
  TensorCut cut = TensorCut::whole;
  Condition exists = always;
  Condition bias = never;
};

constexpr auto whole = TensorCut::whole;
constexpr auto rows = TensorCut::rows;
constexpr auto columns = TensorCut::columns;
constexpr auto vocabulary = TensorCut::vocabulary;

// clang-format off
constexpr Rule embedding_rules[] = {
  {"embedding.word.weight", Size::vocabulary, Size::hidden, vocabulary},
  {"embedding.position.weight", Size::positions, Size::hidden, whole,
   [](const D& d, const Stack&) { return d.position == PositionKind::learned; }},
  {"embedding.token_type.weight", Size::token_types, Size::hidden, whole,
   [](const D& d, const Stack&) { return d.token_types > 0; }},
  {"embedding.norm.*", Size::hidden, {}, whole, norms_after, norm_bias},
};

constexpr Rule stack_rules[] = {
  {"relative_bias.weight", Size::relative_buckets, Size::heads, columns,
   [](const D& d, const Stack&) { return d.position == PositionKind::relative; }},
};

constexpr Rule layer_rules[] = {
  {"input_norm.*", Size::hidden, {}, whole, norms_before, norm_bias},
  {"attention.query_key_value.*", Size::query_key_value, Size::hidden, rows, always, attention_bias},
  {"attention.dense.*", Size::hidden, Size::query, columns, always, attention_bias},
  {"attention_norm.*", Size::hidden, {}, whole, norms_after, norm_bias},
  {"post_attention_norm.*", Size::hidden, {}, whole, norms_before, norm_bias},
  {"cross_attention.query.*", Size::query, Size::hidden, rows, crosses, attention_bias},
  {"cross_attention.key_value.*", Size::key_value, Size::hidden, rows, crosses, attention_bias},
  {"cross_attention.dense.*", Size::hidden, Size::query, columns, crosses, attention_bias},
  {"post_cross_attention_norm.*", Size::hidden, {}, whole, crosses, norm_bias},
  {"mlp.gate.*", Size::ffn, Size::hidden, rows,
   [](const D& d, const Stack&) { return d.gated; }, mlp_bias},
  {"mlp.up.*", Size::ffn, Size::hidden, rows, always, mlp_bias},
  {"mlp.down.*", Size::hidden, Size::ffn, columns, always, mlp_bias},
  {"output_norm.*", Size::hidden, {}, whole, norms_after, norm_bias},
};

constexpr Rule stack_end_rules[] = {
  {"final_norm.*", Size::hidden, {}, whole, norms_before, norm_bias},
};

constexpr bool (*has_pooler)(const D&, const Stack&) =
    [](const D& d, const Stack&) { return d.pooler; };
constexpr bool (*has_masked_head)(const D&, const Stack&) =
    [](const D& d, const Stack&) { return d.masked_head; };

constexpr Rule head_rules[] = {
  {"pooler.*", Size::hidden, Size::hidden, whole, has_pooler, always},
  {"mlm.dense.*", Size::hidden, Size::hidden, whole, has_masked_head, always},
  {"mlm.norm.*", Size::hidden, {}, whole, has_masked_head, norm_bias},
  {"mlm.bias", Size::vocabulary, {}, vocabulary, has_masked_head},
  {"next_sentence.*", Size::two, Size::hidden, whole,
   [](const D& d, const Stack&) { return d.next_sentence_head; }, always},
  {"head.weight", Size::vocabulary, Size::hidden, vocabulary,
   [](const D& d, const Stack&) { return !d.tied_head; }},
  {"head.bias", Size::vocabulary, {}, vocabulary,
   [](const D& d, const Stack&) { return d.head_bias; }},
};
// clang-format on

std::int64_t value_of(Size size, const D& d) {
  switch (size) {
    case Size::hidden:
      return d.hidden;
    case Size::vocabulary:
      return d.vocabulary;
    case Size::positions:
      return d.positions;
    case Size::token_types:
      return d.token_types;
    case Size::query:
      return d.heads * d.head_size;
    case Size::key_value:
      return 2 * d.key_value_heads * d.head_size;
    case Size::query_key_value:
      return (d.heads + 2 * d.key_value_heads) * d.head_size;
    case Size::ffn:
      return d.ffn;
    case Size::heads:
      return d.heads;
    case Size::relative_buckets:
      return d.relative_buckets;
    case Size::two:
      return 2;
  }
  return 0;
}

void add(
    std::span<const Rule> rules,
    const D& d,
    const Stack& stack,
    const std::string& prefix,
    std::vector<ModelParameter>& parameters) {
  for (const Rule& rule : rules) {
    if (!rule.exists(d, stack)) {
      continue;
    }
    const std::int64_t first = value_of(rule.rows, d);
    std::vector<std::int64_t> shape{first};
    if (rule.columns) {
      shape.push_back(value_of(*rule.columns, d));
    }
    if (!rule.name.ends_with(".*")) {
      parameters.push_back(
          {prefix + std::string(rule.name), std::move(shape), rule.cut});
      continue;
    }
    const std::string stem =
        prefix + std::string(rule.name.substr(0, rule.name.size() - 1));
    parameters.push_back({stem + "weight", std::move(shape), rule.cut});
    if (rule.bias(d, stack)) {
      // What is cut by columns is summed over the ranks, and then the bias is
      // added.
      parameters.push_back(
          {stem + "bias", {first}, rule.cut == columns ? whole : rule.cut});
    }
  }
}

} // namespace

std::vector<ModelParameter> model_parameters(const ModelDescription& d) {
  std::vector<Stack> stacks{{"", d.layers}};
  if (d.family == ModelFamily::t5) {
    stacks = {{"encoder.", d.layers}, {"decoder.", d.decoder_layers, true}};
  }
  std::vector<ModelParameter> parameters;
  add(embedding_rules, d, {}, "", parameters);
  for (const Stack& stack : stacks) {
    const std::string prefix(stack.prefix);
    add(stack_rules, d, stack, prefix, parameters);
    for (std::int64_t layer = 0; layer < stack.layers; ++layer) {
      const std::string place = fmt::format("{}layers.{}.", prefix, layer);
      add(layer_rules, d, stack, place, parameters);
    }
    add(stack_end_rules, d, stack, prefix, parameters);
  }
  add(head_rules, d, {}, "", parameters);
  return parameters;
}

std::vector<std::pair<std::string, std::string>> model_ties(
    const ModelDescription& d) {
  const bool headless =
      (d.family == ModelFamily::bert || d.family == ModelFamily::roberta) &&
      !d.masked_head;
  if (d.tied_head && !headless) {
    return {{"head.weight", "embedding.word.weight"}};
  }
  return {};
}

} // namespace cairn::checkpoints
