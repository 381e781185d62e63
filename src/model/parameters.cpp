#include <cairn/model/parameters.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>

namespace cairn::model {

namespace {

using D = ModelDescription;

enum class Size {
  hidden,
  vocabulary,
  positions,
  token_types,
  query,           ///< all query heads
  key_value,       ///< a key and a value for each key/value head
  query_key_value, ///< queries, keys and values
  head,            ///< one of them
  ffn,
  heads,
  relative_buckets,
  experts,
  two
};

/// A stack of layers; T5 has two.
struct Stack {
  std::string_view prefix;
  std::int64_t layers = 0;
  bool cross_attention = false;
  std::int64_t experts = 0; ///< in the layer in question; 0: it has an MLP
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
bool query_key_value_bias(const D& d, const Stack&) {
  return has_query_key_value_bias(d);
}
bool query_key_norm(const D& d, const Stack&) {
  return d.query_key_norm;
}
bool mlp_bias(const D& d, const Stack&) {
  return d.mlp_bias;
}
bool has_mlp(const D&, const Stack& stack) {
  return stack.experts == 0;
}

using Condition = bool (*)(const D&, const Stack&);

/// A parameter or several. A name that ends in ".*" stands for a weight of this
/// shape and, where `bias` says so, a bias as long as the weight's rows.
struct Rule {
  std::string_view name;
  Size rows;
  std::optional<Size> columns;
  TensorCut cut = TensorCut::whole;
  /// Law of the weight; a bias is zero. Queries of models with relative
  /// positions are divided by sqrt(head_size) on top (nn/attention), since
  /// their scores are not scaled.
  InitialLaw initial = InitialLaw::normal;
  Condition exists = always;
  Condition bias = never;
};

constexpr auto whole = TensorCut::whole;
constexpr auto rows = TensorCut::rows;
constexpr auto columns = TensorCut::columns;
constexpr auto vocabulary = TensorCut::vocabulary;
constexpr auto zero = InitialLaw::zero;
constexpr auto one = InitialLaw::one;
constexpr auto normal = InitialLaw::normal;
constexpr auto output_normal = InitialLaw::output_normal;

// clang-format off
constexpr Rule embedding_rules[] = {
  {"embedding.word.weight", Size::vocabulary, Size::hidden, vocabulary, normal},
  {"embedding.position.weight", Size::positions, Size::hidden, whole, normal,
   [](const D& d, const Stack&) { return d.position == PositionKind::learned; }},
  {"embedding.token_type.weight", Size::token_types, Size::hidden, whole, normal,
   [](const D& d, const Stack&) { return d.token_types > 0; }},
  {"embedding.norm.*", Size::hidden, {}, whole, one, norms_after, norm_bias},
};

constexpr Rule stack_rules[] = {
  {"relative_bias.weight", Size::relative_buckets, Size::heads, columns, normal,
   [](const D& d, const Stack&) { return d.position == PositionKind::relative; }},
};

constexpr Rule layer_rules[] = {
  {"input_norm.*", Size::hidden, {}, whole, one, norms_before, norm_bias},
  {"attention.query_key_value.*", Size::query_key_value, Size::hidden, rows, normal, always, query_key_value_bias},
  {"attention.query_norm.*", Size::head, {}, whole, one, query_key_norm, norm_bias},
  {"attention.key_norm.*", Size::head, {}, whole, one, query_key_norm, norm_bias},
  {"attention.dense.*", Size::hidden, Size::query, columns, output_normal, always, attention_bias},
  {"attention_norm.*", Size::hidden, {}, whole, one, norms_after, norm_bias},
  {"post_attention_norm.*", Size::hidden, {}, whole, one, norms_before, norm_bias},
  {"cross_attention.query.*", Size::query, Size::hidden, rows, normal, crosses, attention_bias},
  {"cross_attention.key_value.*", Size::key_value, Size::hidden, rows, normal, crosses, attention_bias},
  {"cross_attention.dense.*", Size::hidden, Size::query, columns, output_normal, crosses, attention_bias},
  {"post_cross_attention_norm.*", Size::hidden, {}, whole, one, crosses, norm_bias},
  {"mlp.gate.*", Size::ffn, Size::hidden, rows, normal,
   [](const D& d, const Stack& stack) { return d.gated && has_mlp(d, stack); }, mlp_bias},
  {"mlp.up.*", Size::ffn, Size::hidden, rows, normal, has_mlp, mlp_bias},
  {"mlp.down.*", Size::hidden, Size::ffn, columns, output_normal, has_mlp, mlp_bias},
  {"output_norm.*", Size::hidden, {}, whole, one, norms_after, norm_bias},
};

/// Rules of a layer with experts, without those of the experts themselves.
constexpr bool (*has_residual)(const D&, const Stack&) =
    [](const D& d, const Stack&) { return d.experts->residual; };
constexpr Rule mixture_rules[] = {
  {"mlp.router.weight", Size::experts, Size::hidden, whole, normal},
  {"mlp.residual.gate.*", Size::ffn, Size::hidden, rows, normal,
   [](const D& d, const Stack&) { return d.experts->residual && d.gated; }, mlp_bias},
  {"mlp.residual.up.*", Size::ffn, Size::hidden, rows, normal, has_residual, mlp_bias},
  {"mlp.residual.down.*", Size::hidden, Size::ffn, columns, output_normal, has_residual, mlp_bias},
  {"mlp.coefficient.*", Size::two, Size::hidden, whole, normal, has_residual, always},
};

constexpr Rule stack_end_rules[] = {
  {"final_norm.*", Size::hidden, {}, whole, one, norms_before, norm_bias},
};

constexpr bool (*has_pooler)(const D&, const Stack&) =
    [](const D& d, const Stack&) { return d.pooler; };
constexpr bool (*has_masked_head)(const D&, const Stack&) =
    [](const D& d, const Stack&) { return d.masked_head; };

constexpr Rule head_rules[] = {
  {"pooler.*", Size::hidden, Size::hidden, whole, normal, has_pooler, always},
  {"mlm.dense.*", Size::hidden, Size::hidden, whole, normal, has_masked_head, always},
  {"mlm.norm.*", Size::hidden, {}, whole, one, has_masked_head, norm_bias},
  {"mlm.bias", Size::vocabulary, {}, vocabulary, zero, has_masked_head},
  {"next_sentence.*", Size::two, Size::hidden, whole, normal,
   [](const D& d, const Stack&) { return d.next_sentence_head; }, always},
  {"head.weight", Size::vocabulary, Size::hidden, vocabulary, normal,
   [](const D& d, const Stack&) { return !d.tied_head; }},
  {"head.bias", Size::vocabulary, {}, vocabulary, zero,
   [](const D& d, const Stack&) { return d.head_bias; }},
};
// clang-format on

std::int64_t value_of(Size size, const D& d, const Stack& stack) {
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
    case Size::head:
      return d.head_size;
    case Size::ffn:
      return d.ffn;
    case Size::heads:
      return d.heads;
    case Size::relative_buckets:
      return d.relative_buckets;
    case Size::experts:
      return stack.experts;
    case Size::two:
      return 2;
  }
  return 0;
}

/// Layer that has a parameter outside of the blocks: the words are one of their
/// own, since a tied head has them too.
std::string layer_of(const std::string& prefix, std::string_view name) {
  constexpr std::string_view words = "embedding.word";
  return name.starts_with(words)
      ? std::string(words)
      : prefix + std::string(name.substr(0, name.find('.')));
}

/// Adds the parameters of the rules; `block`: the layer that has them all.
void add(
    std::span<const Rule> rules,
    const D& d,
    const Stack& stack,
    const std::string& prefix,
    std::vector<ModelParameter>& parameters,
    const std::string& block = {}) {
  for (const Rule& rule : rules) {
    if (!rule.exists(d, stack)) {
      continue;
    }
    const std::int64_t first = value_of(rule.rows, d, stack);
    std::vector<std::int64_t> shape{first};
    if (rule.columns) {
      shape.push_back(value_of(*rule.columns, d, stack));
    }
    const std::string layer =
        block.empty() ? layer_of(prefix, rule.name) : block;
    if (!rule.name.ends_with(".*")) {
      parameters.push_back(
          {prefix + std::string(rule.name),
           std::move(shape),
           rule.cut,
           rule.initial,
           layer});
      continue;
    }
    const std::string stem =
        prefix + std::string(rule.name.substr(0, rule.name.size() - 1));
    parameters.push_back(
        {stem + "weight", std::move(shape), rule.cut, rule.initial, layer});
    if (rule.bias(d, stack)) {
      // A product cut by columns is summed over the ranks before the bias is
      // added, so its bias is whole.
      parameters.push_back(
          {stem + "bias",
           {first},
           rule.cut == columns ? whole : rule.cut,
           zero,
           layer});
    }
  }
}

/// Adds the stacked experts of a layer: [experts, out, in]. Tensor parallel
/// ranks have a part of the MLP's size, which is not the first dimension here.
void add_experts(
    const D& d,
    std::int64_t experts,
    const std::string& block,
    std::vector<ModelParameter>& parameters) {
  struct Product {
    std::int64_t out;
    std::int64_t in;
    TensorCut cut;
    TensorCut bias_cut;
    InitialLaw initial;
  };
  const auto add_product = [&](const char* name, const Product& product) {
    const std::string stem = block + ".mlp.experts." + name;
    parameters.push_back(
        {stem + ".weight",
         {experts, product.out, product.in},
         product.cut,
         product.initial,
         block});
    if (d.mlp_bias) {
      parameters.push_back(
          {stem + ".bias",
           {experts, product.out},
           product.bias_cut,
           zero,
           block});
    }
  };
  const Product up{
      .out = d.ffn,
      .in = d.hidden,
      .cut = columns,
      .bias_cut = columns,
      .initial = normal};
  const Product down{
      .out = d.hidden,
      .in = d.ffn,
      .cut = TensorCut::third,
      .bias_cut = whole,
      .initial = output_normal};
  if (d.gated) {
    add_product("gate", up);
  }
  add_product("up", up);
  add_product("down", down);
}

} // namespace

std::int64_t ModelParameter::elements() const {
  return std::accumulate(
      shape.begin(),
      shape.end(),
      std::int64_t{1},
      std::multiplies<>());
}

std::vector<ModelParameter> model_parameters(const ModelDescription& d) {
  std::vector<Stack> stacks{{"", d.layers}};
  if (kind_of(d.family) == ModelKind::t5) {
    stacks = {{"encoder.", d.layers}, {"decoder.", d.decoder_layers, true}};
  }
  std::vector<ModelParameter> parameters;
  add(embedding_rules, d, {}, "", parameters);
  for (const Stack& stack : stacks) {
    const std::string prefix(stack.prefix);
    add(stack_rules, d, stack, prefix, parameters);
    for (std::int64_t layer = 0; layer < stack.layers; ++layer) {
      const std::string block = fmt::format("{}layers.{}", prefix, layer);
      Stack here = stack;
      here.experts = experts_in_layer(d, layer);
      add(layer_rules, d, here, block + ".", parameters, block);
      if (here.experts > 0) {
        add(mixture_rules, d, here, block + ".", parameters, block);
        add_experts(d, here.experts, block, parameters);
      }
    }
    add(stack_end_rules, d, stack, prefix, parameters);
  }
  add(head_rules, d, {}, "", parameters);
  return parameters;
}

std::vector<std::pair<std::string, std::string>> model_ties(
    const ModelDescription& d) {
  if (d.tied_head && has_word_head(d)) {
    return {{"head.weight", "embedding.word.weight"}};
  }
  return {};
}

bool is_expert(const ModelParameter& parameter) {
  return parameter.name.find(".mlp.experts.") != std::string::npos;
}

std::int64_t idle_elements(
    const ModelDescription& d,
    const ModelParameter& parameter) {
  if (!is_expert(parameter)) {
    return 0;
  }
  const std::int64_t experts = parameter.shape[0];
  return parameter.elements() / experts *
      (experts - std::min(experts, d.experts->top_k));
}

ParameterCount count_parameters(const ModelDescription& d) {
  ParameterCount count;
  for (const ModelParameter& parameter : model_parameters(d)) {
    const std::int64_t elements = parameter.elements();
    count.all += elements;
    count.active += elements - idle_elements(d, parameter);
  }
  return count;
}

} // namespace cairn::model
