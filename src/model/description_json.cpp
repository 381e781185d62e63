#include <cairn/model/description.h>

#include "model/choice_names.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <type_traits>
#include <utility>

namespace cairn::model {

namespace {

using Json = nlohmann::ordered_json;

template <typename Description, typename Visitor>
void visit_fields(Description& d, Visitor&& visit) {
  visit("family", d.family);
  visit("layers", d.layers);
  visit("decoder_layers", d.decoder_layers);
  visit("hidden", d.hidden);
  visit("heads", d.heads);
  visit("key_value_heads", d.key_value_heads);
  visit("head_size", d.head_size);
  visit("ffn", d.ffn);
  visit("vocabulary", d.vocabulary);
  visit("padded_vocabulary", d.padded_vocabulary);
  visit("positions", d.positions);
  visit("position_offset", d.position_offset);
  visit("token_types", d.token_types);
  visit("position", d.position);
  visit("rope_theta", d.rope_theta);
  visit("rope_scaling", d.rope_scaling);
  visit("relative_buckets", d.relative_buckets);
  visit("relative_distance", d.relative_distance);
  visit("norm", d.norm);
  visit("norm_place", d.norm_place);
  visit("norm_epsilon", d.norm_epsilon);
  visit("activation", d.activation);
  visit("gated", d.gated);
  visit("attention_bias", d.attention_bias);
  visit("mlp_bias", d.mlp_bias);
  visit("tied_head", d.tied_head);
  visit("head_bias", d.head_bias);
  visit("scaled_output", d.scaled_output);
  visit("pooler", d.pooler);
  visit("masked_head", d.masked_head);
  visit("next_sentence_head", d.next_sentence_head);
  visit("dropout", d.dropout);
  visit("attention_dropout", d.attention_dropout);
  visit("begin_token", d.begin_token);
  visit("end_token", d.end_token);
  visit("pad_token", d.pad_token);
  visit("decoder_start_token", d.decoder_start_token);
}

/// Members that were added later: older descriptions do not have them.
template <typename Description, typename Visitor>
void visit_later_fields(Description& d, Visitor&& visit) {
  visit("rotary_size", d.rotary_size);
  visit("query_key_value_bias", d.query_key_value_bias);
  visit("query_key_norm", d.query_key_norm);
  visit("parallel_residual", d.parallel_residual);
}

template <typename Scaling, typename Visitor>
void visit_scaling(Scaling& s, Visitor&& visit) {
  visit("kind", s.kind);
  visit("factor", s.factor);
  visit("low_frequency_factor", s.low_frequency_factor);
  visit("high_frequency_factor", s.high_frequency_factor);
  visit("original_positions", s.original_positions);
}

template <typename Yarn, typename Visitor>
void visit_yarn(Yarn& y, Visitor&& visit) {
  visit("fast_turns", y.fast_turns);
  visit("slow_turns", y.slow_turns);
  visit("attention_factor", y.attention_factor);
  visit("whole_pairs", y.whole_pairs);
}

template <typename Long, typename Visitor>
void visit_longrope(Long& l, Visitor&& visit) {
  visit("short_factors", l.short_factors);
  visit("long_factors", l.long_factors);
  visit("attention_factor", l.attention_factor);
}

template <typename Experts, typename Visitor>
void visit_experts(Experts& e, Visitor&& visit) {
  visit("counts", e.counts);
  visit("interval", e.interval);
  visit("top_k", e.top_k);
  visit("residual", e.residual);
  visit("train_capacity_factor", e.train_capacity_factor);
  visit("eval_capacity_factor", e.eval_capacity_factor);
  visit("min_capacity", e.min_capacity);
  visit("drop_tokens", e.drop_tokens);
  visit("random_selection", e.random_selection);
  visit("sample_second", e.sample_second);
  visit("noise", e.noise);
  visit("loss_coefficient", e.loss_coefficient);
}

template <typename Value>
Json to_value(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return Json(choice_name(value));
  } else {
    return Json(value);
  }
}

Json to_value(const YarnScaling& yarn) {
  Json object = Json::object();
  visit_yarn(yarn, [&](const char* name, const auto& value) {
    object[name] = to_value(value);
  });
  return object;
}

Json to_value(const LongScaling& scaling) {
  Json object = Json::object();
  visit_longrope(scaling, [&](const char* name, const auto& value) {
    object[name] = to_value(value);
  });
  return object;
}

Json to_value(const RopeScaling& scaling) {
  Json object = Json::object();
  visit_scaling(scaling, [&](const char* name, const auto& value) {
    object[name] = to_value(value);
  });
  if (scaling.yarn) {
    object["yarn"] = to_value(*scaling.yarn);
  }
  if (scaling.longrope) {
    object["longrope"] = to_value(*scaling.longrope);
  }
  return object;
}

Json to_value(const ExpertsDescription& experts) {
  Json object = Json::object();
  visit_experts(experts, [&](const char* name, const auto& value) {
    object[name] = to_value(value);
  });
  return object;
}

template <typename Value>
Json to_value(const std::optional<Value>& value) {
  return value ? to_value(*value) : Json(nullptr);
}

/// Takes the members of an object out of it, so that those left over are
/// unknown keys.
class Members {
 public:
  Members(Json object, std::string where)
      : object_(std::move(object)), where_(std::move(where)) {
    if (!object_.is_object()) {
      refuse("a JSON object is wanted", object_.type_name());
    }
  }

  void operator()(const char* name, auto& value) {
    const auto found = object_.find(name);
    if (found == object_.end()) {
      refuse("a key is missing", name);
    }
    take(name, *found, value);
    object_.erase(found);
  }

  /// Takes a member that may be missing.
  void take_if_present(const char* name, auto& value) {
    if (object_.contains(name)) {
      (*this)(name, value);
    }
  }

  void finish() const {
    if (!object_.empty()) {
      refuse("an unknown key", object_.begin().key());
    }
  }

 private:
  [[noreturn]] void refuse(const char* what, std::string values) const {
    throw CheckpointError(
        {.what = what, .where = where_, .values = std::move(values)});
  }

  template <typename Value>
  void take(const char* name, const Json& json, Value& value) const {
    if constexpr (std::is_enum_v<Value>) {
      const auto choice = choice_of<Value>(json.get<std::string>());
      if (!choice) {
        refuse("an unknown value", fmt::format("{}: {}", name, json.dump()));
      }
      value = *choice;
    } else if constexpr (std::is_same_v<Value, std::int64_t>) {
      if (!json.is_number_integer()) {
        refuse("a whole number is wanted", name);
      }
      value = json.get<std::int64_t>();
    } else {
      value = json.get<Value>();
    }
  }

  template <typename Value>
  void take(const char* name, const Json& json, std::optional<Value>& value)
      const {
    value.reset();
    if (!json.is_null()) {
      take(name, json, value.emplace());
    }
  }

  void take(const char* name, const Json& json, RopeScaling& value) const {
    Members members(json, where_ + " (" + name + ")");
    visit_scaling(value, members);
    members.take_if_present("yarn", value.yarn);
    members.take_if_present("longrope", value.longrope);
    members.finish();
  }

  void take(const char* name, const Json& json, YarnScaling& value) const {
    Members members(json, where_ + " (" + name + ")");
    visit_yarn(value, members);
    members.finish();
  }

  void take(const char* name, const Json& json, LongScaling& value) const {
    Members members(json, where_ + " (" + name + ")");
    visit_longrope(value, members);
    members.finish();
  }

  void take(const char* name, const Json& json, ExpertsDescription& value)
      const {
    Members members(json, where_ + " (" + name + ")");
    visit_experts(value, members);
    members.finish();
  }

  Json object_;
  std::string where_;
};

} // namespace

std::string to_json(const ModelDescription& description) {
  Json object = Json::object();
  const auto add = [&](const char* name, const auto& value) {
    object[name] = to_value(value);
  };
  visit_fields(description, add);
  visit_later_fields(description, add);
  if (description.experts) {
    object["experts"] = to_value(*description.experts);
  }
  return object.dump(2);
}

ModelDescription model_description_from_json(
    std::string_view text,
    const std::string& where) {
  ModelDescription description;
  try {
    Members members(Json::parse(text), where);
    visit_fields(description, members);
    visit_later_fields(description, [&](const char* name, auto& value) {
      members.take_if_present(name, value);
    });
    members.take_if_present("experts", description.experts);
    members.finish();
  } catch (const Json::exception& error) {
    throw CheckpointError(
        {.what = "not a model's description",
         .where = where,
         .values = error.what()});
  }
  check(description, where);
  return description;
}

} // namespace cairn::model
