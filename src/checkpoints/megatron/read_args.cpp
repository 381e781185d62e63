#include "checkpoints/megatron/args.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::checkpoints::megatron {

namespace {

using Kind = PythonValue::Kind;

/// Reads args, some of whose names changed over the years. None counts as
/// absent.
class ArgsReader {
 public:
  ArgsReader(const PythonValue& args, std::string where)
      : args_(args), where_(std::move(where)) {}

  std::optional<std::int64_t> find_integer(
      std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (const auto value = find(name, Kind::integer, "a whole number")) {
        return value->integer();
      }
    }
    return std::nullopt;
  }

  std::int64_t integer(std::initializer_list<const char*> names) const {
    const auto value = find_integer(names);
    if (!value) {
      refuse("the args do not say", *names.begin());
    }
    return *value;
  }

  double real(std::initializer_list<const char*> names, double otherwise)
      const {
    for (const char* name : names) {
      const auto value = args_.find(name);
      if (value && (value->is(Kind::real) || value->is(Kind::integer))) {
        return value->real();
      }
    }
    return otherwise;
  }

  bool boolean(const char* name, bool otherwise) const {
    const auto value = find(name, Kind::boolean, "True or False");
    return value ? value->boolean() : otherwise;
  }

  std::string text(const char* name, std::string otherwise) const {
    const auto value = find(name, Kind::text, "a text");
    return value ? value->text() : otherwise;
  }

  void require(const char* name, bool wanted) const {
    if (boolean(name, wanted) != wanted) {
      refuse("a kind of model that is not supported", name);
    }
  }

  /// The number of experts in a layer; 1 where there are none, or where the
  /// model is Megatron-DeepSpeed's.
  std::int64_t experts() const {
    const auto value = args_.find("num_experts");
    return value && value->is(Kind::integer) ? value->integer() : 1;
  }

  /// The numbers of experts in the layers that have some, which
  /// Megatron-DeepSpeed lists; empty where there are none.
  std::vector<std::int64_t> listed_experts() const {
    const auto value = args_.find("num_experts");
    std::vector<std::int64_t> counts;
    if (value && value->is(Kind::list)) {
      for (const PythonValue& each : value->items()) {
        if (!each.is(Kind::integer)) {
          refuse("whole numbers are wanted in the args", "num_experts");
        }
        counts.push_back(each.integer());
      }
    }
    const bool none =
        std::ranges::all_of(counts, [](std::int64_t one) { return one <= 1; });
    return none ? std::vector<std::int64_t>() : counts;
  }

  /// True where a number of layers, or a list of ones and zeros for them, names
  /// every layer. Absent means every layer.
  bool is_everywhere(const char* name) const {
    const auto value = args_.find(name);
    if (!value || value->is_none()) {
      return true;
    }
    if (value->is(Kind::integer)) {
      return value->integer() == 1;
    }
    return value->is(Kind::list) &&
        std::ranges::all_of(value->items(), [](const PythonValue& each) {
             return each.is(Kind::integer) && each.integer() == 1;
           });
  }

  [[noreturn]] void refuse(std::string what, std::string values) const {
    throw CheckpointError(
        {.what = std::move(what),
         .where = where_,
         .values = std::move(values)});
  }

 private:
  std::optional<PythonValue> find(
      const char* name,
      Kind kind,
      const char* wanted) const {
    const auto value = args_.find(name);
    if (!value || value->is_none()) {
      return std::nullopt;
    }
    if (!value->is(kind)) {
      refuse(fmt::format("{} is wanted in the args", wanted), name);
    }
    return value;
  }

  PythonValue args_;
  std::string where_;
};

void refuse_unsupported(const ArgsReader& args) {
  args.require("apply_layernorm_1p", false);
  args.require("apply_residual_connection_post_layernorm", false);
  args.require("multi_latent_attention", false);
  args.require("rotary_interleaved", false);
}

/// Refuses ways to choose experts that ours cannot.
void refuse_other_routing(const ArgsReader& args, std::int64_t top_k) {
  args.require("moe_router_enable_expert_bias", false);
  if (const std::string scores =
          args.text("moe_router_score_function", "softmax");
      scores != "softmax") {
    args.refuse("scores of experts that are not supported", scores);
  }
  for (const char* name :
       {"moe_shared_expert_intermediate_size",
        "moe_router_topk_scaling_factor",
        "moe_router_num_groups",
        "moe_latent_size"}) {
    if (args.real({name}, 0) != 0) {
      args.refuse("a kind of experts that is not supported", name);
    }
  }
  // The weights of a token's experts add up to 1, or it has one expert.
  if (top_k > 1) {
    args.require("moe_router_pre_softmax", false);
  }
  if (!args.is_everywhere("moe_layer_freq")) {
    args.refuse(
        "experts in some of the layers are not supported",
        "moe_layer_freq");
  }
}

/// The experts of Megatron-DeepSpeed, which are DeepSpeed's.
void read_listed_experts(
    const ArgsReader& args,
    std::vector<std::int64_t> counts,
    model::ModelDescription& d) {
  const std::string kind = args.text("mlp_type", "standard");
  if (kind != "standard" && kind != "residual") {
    args.refuse("a kind of experts that is not supported", kind);
  }
  d.experts = model::ExpertsDescription{
      .counts = std::move(counts),
      .interval = args.find_integer({"expert_interval"}).value_or(2),
      .top_k = args.find_integer({"topk"}).value_or(1),
      .residual = kind == "residual",
      .train_capacity_factor = args.real({"moe_train_capacity_factor"}, 1),
      .eval_capacity_factor = args.real({"moe_eval_capacity_factor"}, 1),
      .min_capacity = args.find_integer({"moe_min_capacity"}).value_or(4),
      .drop_tokens = args.boolean("moe_token_dropping", true),
      .sample_second = args.boolean("moe_top2_2nd_expert_sampling", true),
      .loss_coefficient = args.real({"moe_loss_coeff"}, 0.1)};
}

void read_experts(const ArgsReader& args, model::ModelDescription& d) {
  if (auto counts = args.listed_experts(); !counts.empty()) {
    read_listed_experts(args, std::move(counts), d);
    return;
  }
  const std::int64_t experts = args.experts();
  if (experts <= 1) {
    return;
  }
  const std::int64_t top_k = args.find_integer({"moe_router_topk"}).value_or(2);
  refuse_other_routing(args, top_k);
  d.ffn = args.find_integer({"moe_ffn_hidden_size"}).value_or(d.ffn);
  const double capacity = args.real({"moe_expert_capacity_factor"}, 0);
  d.experts = model::ExpertsDescription{
      .counts = {experts},
      .interval = 1,
      .top_k = top_k,
      .train_capacity_factor = capacity > 0 ? capacity : 1,
      .eval_capacity_factor = capacity > 0 ? capacity : 1,
      .drop_tokens = capacity > 0,
      .random_selection = false,
      .sample_second = false,
      .loss_coefficient = args.real({"moe_aux_loss_coeff"}, 0)};
}

void read_turned_part(const ArgsReader& args, model::ModelDescription& d) {
  const double part = args.real({"rotary_percent"}, 1);
  if (!(part > 0 && part <= 1)) {
    args.refuse("not a part of a head", fmt::format("rotary_percent {}", part));
  }
  if (part < 1) {
    d.rotary_size =
        static_cast<std::int64_t>(static_cast<double>(d.head_size) * part);
    if (d.rotary_size < 2 || d.rotary_size % 2 != 0) {
      args.refuse(
          "rotary positions turn an even number of elements of a head",
          fmt::format("{} of {}", d.rotary_size, d.head_size));
    }
  }
}

void read_positions(const ArgsReader& args, model::ModelDescription& d) {
  const std::string position =
      args.text("position_embedding_type", "learned_absolute");
  if (position == "rope" ||
      args.boolean("use_rotary_position_embeddings", false)) {
    d.position = model::PositionKind::rotary;
    // Megatron-DeepSpeed saves rope_theta, Megatron-LM rotary_base. What a file
    // lacks is filled in as rotary_base.
    d.rope_theta = args.real({"rope_theta", "rotary_base"}, d.rope_theta);
    read_turned_part(args, d);
    if (args.boolean("use_rope_scaling", false)) {
      // Megatron has fixed values for the rest.
      d.rope_scaling = model::RopeScaling{
          "llama3",
          args.real({"rope_scaling_factor"}, 8),
          1,
          4,
          8192};
    }
  } else if (position != "learned_absolute") {
    args.refuse("positions that are not supported", position);
  }
}

void read_mlp(const ArgsReader& args, model::ModelDescription& d) {
  d.gated = args.boolean("swiglu", false);
  // Megatron's fused gelu is the tanh variant, its plain gelu is not. Before it
  // saved args, it had the fused one.
  const bool tanh = args.boolean("openai_gelu", false) ||
      args.boolean("bias_gelu_fusion", true);
  const bool squared = args.boolean("squared_relu", false);
  d.activation = d.gated ? model::ActivationKind::silu
      : squared          ? model::ActivationKind::squared_relu
      : tanh             ? model::ActivationKind::gelu_tanh
                         : model::ActivationKind::gelu;
}

std::int64_t hidden_times_four(const model::ModelDescription& d) {
  return d.hidden < std::int64_t{1} << 30 ? 4 * d.hidden : 0;
}

} // namespace

model::ModelDescription description_from_args(
    const PythonValue& args_value,
    const ModelFacts& facts,
    const std::string& where) {
  const ArgsReader args(args_value, where);
  refuse_unsupported(args);
  model::ModelDescription d;
  d.layers = args.integer({"num_layers", "encoder_num_layers"});
  if (facts.t5) {
    d.layers = args.find_integer({"encoder_num_layers"}).value_or(d.layers);
    d.decoder_layers = facts.decoder_layers;
    const auto decoder = args.find_integer({"decoder_num_layers"});
    if (facts.decoder_as_said && decoder && *decoder > d.decoder_layers) {
      args.refuse(
          "layers of the decoder are missing",
          fmt::format(
              "decoder_num_layers is {}, and {} are there",
              *decoder,
              d.decoder_layers));
    }
  }
  d.hidden = args.integer({"hidden_size"});
  d.heads = args.integer({"num_attention_heads"});
  d.key_value_heads = d.heads;
  if (args.boolean("group_query_attention", false)) {
    d.key_value_heads = args.integer({"num_query_groups"});
  } else if (const auto heads = args.find_integer({"num_key_value_heads"})) {
    d.key_value_heads = *heads;
  }
  d.head_size = args.find_integer({"kv_channels"})
                    .value_or(d.heads > 0 ? d.hidden / d.heads : 0);
  d.ffn = args.find_integer({"ffn_hidden_size"}).value_or(hidden_times_four(d));
  read_experts(args, d);
  d.padded_vocabulary = facts.padded_vocabulary;
  d.vocabulary = args.find_integer({"orig_vocab_size", "vocab_size"})
                     .value_or(facts.padded_vocabulary);
  d.positions = args.integer({"max_position_embeddings"});
  d.token_types = facts.token_types;
  read_positions(args, d);
  read_mlp(args, d);
  std::string norm = args.text("normalization", "layernorm");
  std::ranges::transform(norm, norm.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  if (norm != "layernorm" && norm != "rmsnorm") {
    args.refuse("a norm that is not supported", norm);
  }
  d.norm = norm == "rmsnorm" ? model::NormKind::rms_norm
                             : model::NormKind::layer_norm;
  d.norm_epsilon = args.real({"layernorm_epsilon", "norm_epsilon"}, 1e-5);
  d.attention_bias = args.boolean("add_bias_linear", true);
  d.mlp_bias = d.attention_bias;
  d.query_key_value_bias =
      !d.attention_bias && args.boolean("add_qkv_bias", false);
  d.query_key_norm = args.boolean("qk_layernorm", false);
  d.tied_head = !args.boolean("untie_embeddings_and_output_weights", false);
  d.dropout = args.real({"hidden_dropout"}, 0.1);
  d.attention_dropout = args.real({"attention_dropout"}, 0.1);
  const bool llama = d.position == model::PositionKind::rotary &&
      d.norm == model::NormKind::rms_norm;
  d.family = facts.t5 ? model::ModelFamily::t5
      : facts.bert    ? model::ModelFamily::bert
      : llama         ? model::ModelFamily::llama
                      : model::ModelFamily::gpt2;
  d.head_bias = facts.t5;
  d.pooler = facts.pooler;
  d.masked_head = facts.masked_head;
  d.next_sentence_head = facts.next_sentence_head;
  return d;
}

} // namespace cairn::checkpoints::megatron
