#include "checkpoints/dcp/titan.h"

#include "checkpoints/internal/head_rows.h"
#include "checkpoints/tensors/lazy_operations.h"
#include "checkpoints/tensors/name_pattern.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace cairn::checkpoints::dcp {

namespace {

using Kind = PythonValue::Kind;

constexpr const char* embedding = "tok_embeddings.weight";
constexpr std::int64_t most_layers = 10'000;

struct NameRule {
  std::string_view ours;
  /// Names of the tensors: one, or three to be joined. Newer names come first.
  std::array<std::array<std::string_view, 3>, 2> theirs;
};

// clang-format off
constexpr NameRule rules[] = {
  {"embedding.word.weight", {{{embedding}}}},
  {"layers.#.input_norm.*", {{{"layers.#.attention_norm.*"}}}},
  {"layers.#.attention.query_key_value.*", {{
      {"layers.#.attention.qkv_linear.wq.*", "layers.#.attention.qkv_linear.wk.*", "layers.#.attention.qkv_linear.wv.*"},
      {"layers.#.attention.wq.*", "layers.#.attention.wk.*", "layers.#.attention.wv.*"}}}},
  {"layers.#.attention.dense.*", {{{"layers.#.attention.wo.*"}}}},
  {"layers.#.post_attention_norm.*", {{{"layers.#.ffn_norm.*"}}}},
  {"layers.#.mlp.gate.*", {{{"layers.#.feed_forward.w1.*"}}}},
  {"layers.#.mlp.up.*", {{{"layers.#.feed_forward.w3.*"}}}},
  {"layers.#.mlp.down.*", {{{"layers.#.feed_forward.w2.*"}}}},
  {"final_norm.*", {{{"norm.*"}}}},
  {"head.weight", {{{"lm_head.weight"}, {"output.weight"}}}},
};
// clang-format on

const std::vector<std::int64_t>* find_shape(
    const Folder& saved,
    const std::string& name) {
  const auto found = saved.metadata().tensors.find(name);
  return found == saved.metadata().tensors.end() ? nullptr
                                                 : &found->second.shape;
}

/// A number of rows of a tensor; 0 if it is not there.
std::int64_t rows_of(const Folder& saved, const std::string& name) {
  const auto* shape = find_shape(saved, name);
  return shape != nullptr && !shape->empty() ? shape->front() : 0;
}

std::optional<std::int64_t> number(const PythonValue& args, const char* name) {
  const auto value = args.is_none() ? std::nullopt : args.find(name);
  return value && value->is(Kind::integer) ? std::optional(value->integer())
                                           : std::nullopt;
}

std::optional<double> real(const PythonValue& args, const char* name) {
  const auto value = args.is_none() ? std::nullopt : args.find(name);
  return value && (value->is(Kind::real) || value->is(Kind::integer))
      ? std::optional(value->real())
      : std::nullopt;
}

LazyTensor of_shape(
    const Folder& saved,
    const std::string& name,
    std::vector<std::int64_t> shape) {
  LazyTensor tensor = saved.tensor(name);
  if (tensor.shape != shape || !at::isFloatingType(tensor.type)) {
    throw CheckpointError(
        {.what = fmt::format("\"{}\" does not fit the model", name)});
  }
  return tensor;
}

/// Rows in the order of rotary halves; here the rows of a pair are neighbours.
LazyTensor in_halves(LazyTensor tensor, const model::ModelDescription& d) {
  return heads_from_turns(std::move(tensor), 2, d.head_size / 2);
}

} // namespace

bool is_titan(const Folder& saved) {
  return find_shape(saved, embedding) != nullptr &&
      find_shape(saved, "layers.0.attention.wo.weight") != nullptr &&
      find_shape(saved, "layers.0.feed_forward.w1.weight") != nullptr;
}

std::vector<std::string> titan_names(
    const Folder& saved,
    const std::string& parameter) {
  for (const NameRule& rule : rules) {
    const auto match = match_pattern(rule.ours, parameter);
    if (!match) {
      continue;
    }
    std::vector<std::string> names;
    for (const auto& spelling : rule.theirs) {
      std::vector<std::string> spelled;
      for (const std::string_view pattern : spelling) {
        if (!pattern.empty()) {
          spelled.push_back(fill_pattern(pattern, *match));
        }
      }
      const bool there =
          !spelled.empty() && find_shape(saved, spelled.front()) != nullptr;
      if (there || names.empty()) {
        names = std::move(spelled);
      }
      if (there) {
        break;
      }
    }
    return names;
  }
  throw CheckpointError(
      {.what = "torchtitan's Llama has no such parameter",
       .values = parameter});
}

std::optional<model::ModelDescription> titan_description(
    const Folder& saved,
    const PythonValue& args) {
  const auto heads = number(args, "num_attention_heads");
  const auto positions = number(args, "max_position_embeddings");
  const auto base = real(args, "rotary_base");
  const auto* words = find_shape(saved, embedding);
  if (!heads || !positions || !base || words == nullptr || words->size() != 2) {
    return std::nullopt;
  }
  model::ModelDescription d{.family = model::ModelFamily::llama};
  while (
      d.layers < most_layers &&
      rows_of(saved, fmt::format("layers.{}.attention.wo.weight", d.layers)) >
          0) {
    ++d.layers;
  }
  const auto heads_names =
      titan_names(saved, "layers.0.attention.query_key_value.weight");
  d.vocabulary = words->front();
  d.padded_vocabulary = d.vocabulary;
  d.hidden = words->back();
  d.heads = *heads;
  d.head_size =
      rows_of(saved, heads_names[0]) / std::max<std::int64_t>(1, *heads);
  d.key_value_heads =
      rows_of(saved, heads_names[1]) / std::max<std::int64_t>(1, d.head_size);
  d.ffn = rows_of(saved, "layers.0.feed_forward.w1.weight");
  d.positions = *positions;
  d.position = model::PositionKind::rotary;
  d.rope_theta = *base;
  d.norm = model::NormKind::rms_norm;
  const auto epsilon = args.find("norm_epsilon");
  d.norm_epsilon = epsilon ? epsilon->real() : 1e-5; // torchtitan's default
  d.activation = model::ActivationKind::silu;
  d.gated = true;
  d.attention_bias = false;
  d.mlp_bias = false;
  d.tied_head = find_shape(saved, "lm_head.weight") == nullptr &&
      find_shape(saved, "output.weight") == nullptr;
  check(d, "the model that the flags and the tensors describe");
  return d;
}

LazyTensor titan_tensor(
    const Folder& saved,
    const model::ModelDescription& d,
    const std::string& parameter,
    const std::string& prefix,
    const std::string& suffix) {
  std::vector<std::string> names = titan_names(saved, parameter);
  for (std::string& name : names) {
    name = fmt::format("{}{}{}", prefix, name, suffix);
  }
  if (names.size() == 1) {
    return saved.tensor(names.front());
  }
  const std::int64_t queries = d.heads * d.head_size;
  const std::int64_t keys = d.key_value_heads * d.head_size;
  return interleaved(
      {in_halves(of_shape(saved, names[0], {queries, d.hidden}), d),
       in_halves(of_shape(saved, names[1], {keys, d.hidden}), d),
       of_shape(saved, names[2], {keys, d.hidden})},
      d.key_value_heads);
}

void check_titan(const model::ModelDescription& d) {
  const auto refuse = [](const char* what) {
    throw ConfigError(
        {.what = fmt::format("torchtitan's Llama has no {}", what),
         .remedy = "write another format"});
  };
  if (d.family != model::ModelFamily::llama ||
      d.position != model::PositionKind::rotary ||
      d.norm != model::NormKind::rms_norm || !d.gated) {
    refuse("such positions, norms or MLP");
  }
  if (d.attention_bias || d.mlp_bias) {
    refuse("biases");
  }
}

NamedTensors titan_parts(
    const model::ModelDescription& d,
    const std::string& parameter,
    const LazyTensor& tensor) {
  for (const NameRule& rule : rules) {
    const auto match = match_pattern(rule.ours, parameter);
    if (!match) {
      continue;
    }
    const auto& theirs = rule.theirs.front();
    if (theirs[1].empty()) {
      return {{fill_pattern(theirs[0], *match), tensor}};
    }
    const std::vector<std::int64_t> rows = query_key_value_rows(d);
    NamedTensors parts;
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      LazyTensor part = deinterleaved(tensor, d.key_value_heads, rows, i);
      const bool rotated = i < 2;
      // The reverse of in_halves().
      parts.emplace_back(
          fill_pattern(theirs[i], *match),
          rotated ? heads_from_turns(std::move(part), d.head_size / 2, 2)
                  : part);
    }
    return parts;
  }
  throw ConfigError(
      {.what = "torchtitan's Llama has no such parameter",
       .values = parameter});
}

} // namespace cairn::checkpoints::dcp
