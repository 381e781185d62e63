#include "pretrain/plan/checkpoint_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::pretrain {

namespace {

using checkpoints::PythonValue;
using model::ModelDescription;
using ValueKind = PythonValue::Kind;

enum class Wins { no, yes };

/// Collects flags.
class FlagList {
 public:
  template <typename T>
  void value(const char* name, const T& value, Wins wins = Wins::no) {
    flags_.push_back(
        {.name = name,
         .values = {fmt::format("{}", value)},
         .wins = wins == Wins::yes,
         .always = always_});
  }
  /// Lets another flag of a command line count as the one added last.
  void also(const char* name) {
    if (!flags_.empty()) {
      flags_.back().also = name;
    }
  }
  void values(const char* name, const std::vector<std::int64_t>& values) {
    config::StoredFlag flag{.name = name, .wins = true, .always = always_};
    for (const std::int64_t value : values) {
      flag.values.push_back(std::to_string(value));
    }
    flags_.push_back(std::move(flag));
  }
  void toggle(const char* name, bool there, Wins wins = Wins::no) {
    flags_.push_back(
        {.name = name, .absent = !there, .wins = wins == Wins::yes});
  }
  void absent(const char* name) { toggle(name, false, Wins::yes); }
  /// From here on defaults are said as well.
  void say_defaults() { always_ = true; }

  std::vector<config::StoredFlag> take() { return std::move(flags_); }

 private:
  std::vector<config::StoredFlag> flags_;
  bool always_ = false;
};

void add_sizes(const ModelDescription& d, FlagList& list) {
  const bool t5 = d.family == model::ModelFamily::t5;
  list.value(t5 ? "--encoder-num-layers" : "--num-layers", d.layers);
  list.also(t5 ? "--num-layers" : "--encoder-num-layers");
  if (t5) {
    list.value("--decoder-num-layers", d.decoder_layers);
  }
  list.value("--hidden-size", d.hidden);
  list.value("--ffn-hidden-size", d.ffn);
  list.value("--num-attention-heads", d.heads);
  list.value("--kv-channels", d.head_size);
  if (d.key_value_heads == d.heads) {
    list.absent("--num-key-value-heads");
  } else {
    list.value("--num-key-value-heads", d.key_value_heads, Wins::yes);
  }
  list.toggle(
      "--group-query-attention",
      d.key_value_heads != d.heads,
      Wins::yes);
}

/// The part of a head that turns, from which so many elements follow.
double turned_part(const ModelDescription& d) {
  const auto size = static_cast<double>(d.head_size);
  const auto turned = static_cast<double>(d.rotary_size);
  const double part = turned / size;
  return std::floor(size * part) == turned ? part : (turned + 0.5) / size;
}

void add_positions(const ModelDescription& d, FlagList& list) {
  if (d.positions > 0) {
    list.value("--max-position-embeddings", d.positions);
  }
  const bool rotary = d.position == model::PositionKind::rotary;
  list.value(
      "--position-embedding-type",
      rotary                                           ? "rope"
          : d.position == model::PositionKind::learned ? "learned_absolute"
                                                       : "relative",
      Wins::yes);
  if (!rotary) {
    list.absent("--use-rotary-position-embeddings");
    list.absent("--no-position-embedding");
  }
  if (rotary) {
    list.value("--rotary-base", d.rope_theta, Wins::yes);
  }
  if (rotary && d.rotary_size > 0) {
    list.value("--rotary-percent", turned_part(d), Wins::yes);
  } else {
    list.absent("--rotary-percent");
  }
  const bool stretched = rotary && d.rope_scaling;
  list.toggle("--use-rope-scaling", stretched, Wins::yes);
  if (stretched) {
    list.value("--rope-scaling-factor", d.rope_scaling->factor, Wins::yes);
  }
  if (d.position == model::PositionKind::relative) {
    list.value("--relative-attention-num-buckets", d.relative_buckets);
    list.value("--relative-attention-max-distance", d.relative_distance);
  }
}

void add_layers(const ModelDescription& d, FlagList& list) {
  using enum model::ActivationKind;
  list.toggle("--swiglu", d.gated && d.activation == silu, Wins::yes);
  list.toggle("--squared-relu", d.activation == squared_relu, Wins::yes);
  const bool rms = d.norm == model::NormKind::rms_norm;
  list.value("--normalization", rms ? "RMSNorm" : "LayerNorm", Wins::yes);
  list.value("--norm-epsilon", d.norm_epsilon);
  list.toggle("--disable-bias-linear", !d.attention_bias, Wins::yes);
  list.toggle("--add-qkv-bias", d.query_key_value_bias, Wins::yes);
  list.toggle("--qk-layernorm", d.query_key_norm);
  list.toggle("--use-parallel-residual", d.parallel_residual);
  list.toggle("--untie-embeddings-and-output-weights", !d.tied_head, Wins::yes);
  if (d.family == model::ModelFamily::bert) {
    list.toggle("--bert-no-binary-head", !d.next_sentence_head);
  }
  list.value("--hidden-dropout", d.dropout, Wins::yes);
  list.value("--attention-dropout", d.attention_dropout, Wins::yes);
}

std::string_view noise_name(model::RouterNoise noise) {
  return noise == model::RouterNoise::jitter ? "Jitter" : "RSample";
}

/// Adds every flag about experts, since Megatron-LM's defaults would fill in
/// those that are left out.
void add_experts(const ModelDescription& d, FlagList& list) {
  if (!model::has_experts(d)) {
    list.absent("--num-experts");
    return;
  }
  const model::ExpertsDescription& e = *d.experts;
  list.say_defaults();
  list.values("--num-experts", e.counts);
  list.value("--topk", e.top_k, Wins::yes);
  list.value("--expert-interval", e.interval, Wins::yes);
  list.value("--mlp-type", e.residual ? "residual" : "standard");
  list.value("--moe-loss-coeff", e.loss_coefficient);
  list.value("--moe-train-capacity-factor", e.train_capacity_factor);
  list.value("--moe-eval-capacity-factor", e.eval_capacity_factor);
  list.value("--moe-min-capacity", e.min_capacity);
  list.toggle("--disable-moe-token-dropping", !e.drop_tokens);
  list.toggle("--disable-moe-random-token-selection", !e.random_selection);
  list.toggle("--disable-moe-top2-2nd-expert-sampling", !e.sample_second);
  if (e.noise != model::RouterNoise::none) {
    list.value("--moe-noisy-gate-policy", noise_name(e.noise));
  }
}

/// The arguments of the run that saved a checkpoint: Megatron's, or the flags
/// of `cairn pretrain`, which have the same names.
class RunArguments {
 public:
  explicit RunArguments(const checkpoints::Portable& stored)
      : megatron_(stored.megatron_args),
        ours_(stored.flags),
        deepspeed_(stored.config) {}

  /// Adds a flag that the run has said, if it has a single value. One that it
  /// has not said, but takes precedence, has its default.
  void add(const char* flag, FlagList& list, Wins wins = Wins::no) const {
    const auto value = find(flag);
    if (value && value->is(ValueKind::integer)) {
      list.value(flag, value->integer(), wins);
    } else if (value && value->is(ValueKind::text) && !value->text().empty()) {
      list.value(flag, value->text(), wins);
    } else if (!value && wins == Wins::yes && is_pretraining()) {
      list.absent(flag);
    }
  }

  /// Adds a length that either of two flags says.
  void add_length(const char* flag, const char* other, FlagList& list) const {
    const auto has = [&](const char* name) {
      const auto value = find(name);
      return value && value->is(ValueKind::integer);
    };
    if (has(flag)) {
      add(flag, list);
      list.also(other);
    } else if (has(other)) {
      add(other, list);
      list.also(flag);
    }
  }

  /// Adds the stages of the pipeline, which the JSON may have said as well.
  void add_stages(FlagList& list) const {
    const char* const flag = "--pipeline-model-parallel-size";
    const auto section = is_pretraining() && deepspeed_.is(ValueKind::dict)
        ? deepspeed_.find("pipeline")
        : std::nullopt;
    const auto stages = section && section->is(ValueKind::dict)
        ? section->find("stages")
        : std::nullopt;
    if (!find(flag) && stages && stages->is(ValueKind::integer)) {
      list.value(flag, stages->integer(), Wins::yes);
    } else {
      add(flag, list, Wins::yes);
    }
  }

  /// Adds the virtual stages: Megatron saves their number whichever flag said
  /// it.
  void add_virtual_stages(FlagList& list) const {
    const char* const by_layers = "--num-layers-per-virtual-pipeline-stage";
    const char* const by_number = "--num-virtual-stages-per-pipeline-rank";
    const auto number = is_pretraining()
        ? std::nullopt
        : find("--virtual-pipeline-model-parallel-size");
    if (!number) {
      add(by_layers, list, Wins::yes);
      add(by_number, list, Wins::yes);
      return;
    }
    if (number->is(ValueKind::integer)) {
      list.value(by_number, number->integer(), Wins::yes);
      list.also(by_layers);
    } else {
      list.absent(by_layers);
      list.absent(by_number);
    }
  }

 private:
  /// True for a run of `cairn pretrain`, whose flags are all there: none goes
  /// without the number of layers.
  bool is_pretraining() const {
    return ours_.is(ValueKind::dict) &&
        (ours_.find("--num-layers") || ours_.find("--encoder-num-layers"));
  }

  std::optional<PythonValue> find(std::string_view flag) const {
    if (ours_.is(ValueKind::dict)) {
      return ours_.find(flag);
    }
    std::string name(flag.substr(2));
    std::ranges::replace(name, '-', '_');
    if (!megatron_.is(ValueKind::object)) {
      return std::nullopt;
    }
    auto value = megatron_.find(name);
    if (!value && name == "expert_model_parallel_size") {
      value = megatron_.find("moe_expert_parallel_size"); // under DeepSpeed
    }
    return value;
  }

  const PythonValue& megatron_;
  const PythonValue& ours_;
  const PythonValue& deepspeed_;
};

} // namespace

std::vector<config::StoredFlag> flags_of_checkpoint(
    const checkpoints::Portable& stored,
    const CheckpointChoice& choice) {
  FlagList list;
  const RunArguments run(stored);
  const ModelDescription& d = stored.description.value();
  add_sizes(d, list);
  add_positions(d, list);
  add_layers(d, list);
  if (d.family == model::ModelFamily::t5) {
    run.add_length("--encoder-seq-length", "--seq-length", list);
    run.add("--decoder-seq-length", list);
  } else {
    run.add_length("--seq-length", "--encoder-seq-length", list);
  }
  run.add("--make-vocab-size-divisible-by", list);
  if (choice.tokenizer) {
    run.add("--tokenizer-type", list, Wins::yes);
    run.add("--tokenizer-model", list, Wins::yes);
    run.add("--vocab-file", list);
    run.add("--merge-file", list);
    run.add("--vocab-size", list);
    run.add("--vocab-extra-ids", list);
    run.add("--tiktoken-pattern", list, Wins::yes);
    run.add("--tiktoken-num-special-tokens", list);
  }
  if (choice.layout) {
    run.add("--tensor-model-parallel-size", list, Wins::yes);
    run.add_stages(list);
    run.add("--expert-model-parallel-size", list, Wins::yes);
    run.add_virtual_stages(list);
  }
  add_experts(d, list); // the last: from there on defaults are said
  return list.take();
}

} // namespace cairn::pretrain
