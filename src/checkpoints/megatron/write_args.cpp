#include "checkpoints/megatron/args.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace cairn::checkpoints::megatron {

namespace {

using Kind = PythonValue::Kind;

[[noreturn]] void cannot_write(std::string_view what) {
  throw ConfigError(
      {.what = fmt::format("Megatron has no model with {}", what),
       .remedy = "keep it in Cairn's or Hugging Face's format"});
}

void check_writable(const model::ModelDescription& d) {
  const bool rotary = d.position == model::PositionKind::rotary;
  if (d.norm_place == model::NormPlace::after) {
    cannot_write("norms after attention and MLP, as BERT and RoBERTa have");
  }
  if (d.position == model::PositionKind::relative) {
    cannot_write("relative positions, as T5 has, in these files");
  }
  if (d.position_offset != 0) {
    cannot_write("positions that begin after the padding token");
  }
  if (d.attention_bias != d.mlp_bias) {
    cannot_write("biases in attention or MLP alone");
  }
  if (has_experts(d) &&
      (d.experts->interval != 1 || d.experts->counts.size() != 1 ||
       d.experts->residual)) {
    cannot_write(
        "experts in some layers only, in different numbers, or beside an MLP");
  }
  if (d.parallel_residual) {
    cannot_write("attention and MLP side by side, as GPT-NeoX has");
  }
  if (d.gated ? d.activation != model::ActivationKind::silu
              : d.activation != model::ActivationKind::gelu &&
              d.activation != model::ActivationKind::gelu_tanh &&
              d.activation != model::ActivationKind::squared_relu) {
    cannot_write("such an activation");
  }
  if (d.rope_scaling &&
      (!rotary ||
       *d.rope_scaling !=
           model::RopeScaling{"llama3", d.rope_scaling->factor, 1, 4, 8192})) {
    cannot_write("such a scaling of rotary positions");
  }
  const bool bert = d.family == model::ModelFamily::bert;
  if (bert && !d.tied_head) {
    cannot_write("a BERT whose head is not the embedding");
  }
  if (d.family == model::ModelFamily::t5 && (!d.head_bias || !d.tied_head)) {
    cannot_write("a T5 without tied head and bias of the head");
  }
}

/// An argument by which files of Megatron-DeepSpeed show that their queries,
/// keys and values lie apart, which those that are written here do not.
constexpr const char* rows_apart = "ds_sequence_parallel_fpdt";

/// The args that were read, with some replaced or added.
class ArgsWriter {
 public:
  explicit ArgsWriter(const PythonValue& args) {
    if (args.is(Kind::object) && args.state().is(Kind::dict)) {
      for (const auto& [key, value] : args.state().entries()) {
        if (key.is(Kind::text) && key.text() != rows_apart) {
          members_.emplace_back(key.text(), value);
        }
      }
    }
  }

  bool has(const char* name) const {
    return std::ranges::find(members_, name, &PythonValue::Member::first) !=
        members_.end();
  }
  void set(const char* name, PythonValue value) {
    const auto found =
        std::ranges::find(members_, name, &PythonValue::Member::first);
    if (found == members_.end()) {
      members_.emplace_back(name, std::move(value));
    } else {
      found->second = std::move(value);
    }
  }
  void set(const char* name, std::int64_t value) {
    set(name, PythonValue::integer(value));
  }
  void set(const char* name, double value) {
    set(name, PythonValue::real(value));
  }
  void set(const char* name, bool value) {
    set(name, PythonValue::boolean(value));
  }
  void set(const char* name, const char* value) {
    set(name, PythonValue::text(value));
  }

  PythonValue take() {
    return PythonValue::object("argparse", "Namespace", std::move(members_));
  }

 private:
  std::vector<PythonValue::Member> members_;
};

} // namespace

PythonValue args_of(
    const model::ModelDescription& d,
    const MegatronWriteOptions& options,
    std::int64_t padded_vocabulary,
    at::ScalarType type) {
  check_writable(d);
  const bool rotary = d.position == model::PositionKind::rotary;
  const bool grouped = d.key_value_heads != d.heads;
  ArgsWriter args(options.args);
  args.set("num_layers", d.layers);
  args.set("encoder_num_layers", d.layers);
  args.set(
      "decoder_num_layers",
      d.decoder_layers > 0 ? PythonValue::integer(d.decoder_layers)
                           : PythonValue());
  args.set("hidden_size", d.hidden);
  args.set("num_attention_heads", d.heads);
  args.set("group_query_attention", grouped);
  args.set("num_query_groups", d.key_value_heads);
  args.set("num_key_value_heads", d.key_value_heads);
  args.set("kv_channels", d.head_size);
  args.set("ffn_hidden_size", d.ffn);
  args.set("max_position_embeddings", d.positions);
  args.set("orig_vocab_size", d.vocabulary);
  args.set("padded_vocab_size", padded_vocabulary);
  args.set("make_vocab_size_divisible_by", options.vocabulary_multiple);
  args.set("position_embedding_type", rotary ? "rope" : "learned_absolute");
  args.set("use_rotary_position_embeddings", rotary);
  // Megatron compares this with its flag, which Megatron-Core's runs with
  // rotary positions may or may not give. Its default is True.
  const bool core = options.names != MegatronNames::legacy;
  if (!core || !args.has("add_position_embedding")) {
    args.set("add_position_embedding", core || !rotary);
  }
  args.set("rotary_base", d.rope_theta);
  args.set("rope_theta", d.rope_theta);
  args.set(
      "rotary_percent",
      static_cast<double>(rotary_elements(d)) /
          static_cast<double>(d.head_size));
  args.set("use_rope_scaling", d.rope_scaling.has_value());
  args.set(
      "rope_scaling_factor",
      d.rope_scaling ? d.rope_scaling->factor : 8.0);
  args.set(
      "normalization",
      d.norm == model::NormKind::rms_norm ? "RMSNorm" : "LayerNorm");
  args.set("layernorm_epsilon", d.norm_epsilon);
  args.set("norm_epsilon", d.norm_epsilon);
  args.set("swiglu", d.gated);
  args.set("openai_gelu", d.activation == model::ActivationKind::gelu_tanh);
  args.set("bias_gelu_fusion", false);
  args.set("squared_relu", d.activation == model::ActivationKind::squared_relu);
  args.set("add_bias_linear", d.mlp_bias);
  args.set("add_qkv_bias", has_query_key_value_bias(d));
  args.set("qk_layernorm", d.query_key_norm);
  if (has_experts(d)) {
    const model::ExpertsDescription& e = *d.experts;
    args.set("num_experts", e.counts[0]);
    args.set("moe_layer_freq", std::int64_t{1});
    args.set("moe_ffn_hidden_size", d.ffn);
    args.set("moe_router_topk", e.top_k);
    args.set("moe_router_pre_softmax", e.top_k == 1);
    args.set("moe_router_score_function", "softmax");
    args.set("moe_aux_loss_coeff", e.loss_coefficient);
    args.set("moe_grouped_gemm", options.names == MegatronNames::core);
    args.set("expert_model_parallel_size", options.split.expert);
    args.set("expert_tensor_parallel_size", options.split.tensor);
  }
  args.set("untie_embeddings_and_output_weights", !d.tied_head);
  args.set("bert_binary_head", d.next_sentence_head);
  args.set("hidden_dropout", d.dropout);
  args.set("attention_dropout", d.attention_dropout);
  args.set("tensor_model_parallel_size", options.split.tensor);
  args.set("pipeline_model_parallel_size", options.split.pipeline);
  args.set(
      "pipeline_model_parallel_split_rank",
      d.family == model::ModelFamily::t5 && options.split.pipeline > 1
          ? PythonValue::integer(options.split.encoder_stages)
          : PythonValue());
  args.set("virtual_pipeline_model_parallel_size", PythonValue());
  args.set("consumed_train_samples", options.samples);
  args.set("consumed_valid_samples", options.validation_samples);
  args.set("skipped_train_samples", std::int64_t{0});
  args.set("no_save_optim", !options.optimizer.has_value());
  args.set("no_save_rng", true);
  args.set("fp16", type == at::kHalf);
  args.set("bf16", type == at::kBFloat16);
  args.set(
      "params_dtype",
      PythonValue::global(
          "torch",
          type == at::kHalf           ? "float16"
              : type == at::kBFloat16 ? "bfloat16"
                                      : "float32"));
  return args.take();
}

std::int64_t padded_rows(
    std::int64_t vocabulary,
    const MegatronWriteOptions& options) {
  if (options.vocabulary_multiple < 1 ||
      options.vocabulary_multiple > std::int64_t{1} << 30) {
    throw ConfigError(
        {.what = "the vocabulary cannot be padded to a multiple of that",
         .values = fmt::format("{}", options.vocabulary_multiple)});
  }
  return model::padded_vocabulary(
      vocabulary,
      options.vocabulary_multiple * options.split.tensor);
}

} // namespace cairn::checkpoints::megatron
