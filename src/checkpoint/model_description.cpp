#include <cairn/checkpoint/model_description.h>

#include "checkpoint/choice_names.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <initializer_list>
#include <utility>

namespace cairn::checkpoints {

namespace {

using Json = nlohmann::ordered_json;

// Far beyond any model; what a hostile file can make us allocate ends here.
constexpr std::int64_t most_layers = 10'000;
constexpr std::int64_t most_experts = 1 << 16;
constexpr std::int64_t largest_size = std::int64_t{1} << 30;

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

template <typename Scaling, typename Visitor>
void visit_scaling(Scaling& s, Visitor&& visit) {
  visit("kind", s.kind);
  visit("factor", s.factor);
  visit("low_frequency_factor", s.low_frequency_factor);
  visit("high_frequency_factor", s.high_frequency_factor);
  visit("original_positions", s.original_positions);
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

Json to_value(const RopeScaling& scaling) {
  Json object = Json::object();
  visit_scaling(scaling, [&](const char* name, const auto& value) {
    object[name] = to_value(value);
  });
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

/// Takes the members of an object out of it, so that what is left is unknown.
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

  /// What need not be there.
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

void check_experts(const ModelDescription& d, const std::string& where) {
  const auto refuse = [&](std::string what) {
    throw CheckpointError(
        {.what = "not a possible model",
         .where = where,
         .values = std::move(what)});
  };
  const ExpertsDescription& e = *d.experts;
  if (d.family != ModelFamily::gpt2 && d.family != ModelFamily::llama) {
    refuse("experts are for models of the GPT family");
  }
  if (e.interval < 1 || e.interval > d.layers) {
    refuse(
        fmt::format("experts in every {} of {} layers", e.interval, d.layers));
  }
  const std::size_t layers = static_cast<std::size_t>(d.layers / e.interval);
  if (e.counts.size() != 1 && e.counts.size() != layers) {
    refuse(fmt::format(
        "{} numbers of experts for {} layers that have some",
        e.counts.size(),
        layers));
  }
  for (const std::int64_t count : e.counts) {
    if (count < 1 || count > most_experts) {
      refuse(fmt::format("{} experts in a layer", count));
    }
  }
  if (e.top_k < 1 || e.top_k > 2) {
    refuse(fmt::format("{} experts for a token", e.top_k));
  }
  if (e.min_capacity < 0 || e.min_capacity > largest_size) {
    refuse(fmt::format("room for {} tokens at least", e.min_capacity));
  }
  for (const double factor :
       {e.train_capacity_factor, e.eval_capacity_factor}) {
    if (!std::isfinite(factor) || factor <= 0) {
      refuse(fmt::format("a capacity factor of {}", factor));
    }
  }
  if (!std::isfinite(e.loss_coefficient) || e.loss_coefficient < 0) {
    refuse(fmt::format("a loss coefficient of {}", e.loss_coefficient));
  }
}

} // namespace

std::string_view name_of(ModelFamily family) {
  return choice_name(family);
}

std::string to_json(const ModelDescription& description) {
  Json object = Json::object();
  visit_fields(description, [&](const char* name, const auto& value) {
    object[name] = to_value(value);
  });
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

void check(const ModelDescription& d, const std::string& where) {
  const auto refuse = [&](std::string_view what, std::int64_t value) {
    throw CheckpointError(
        {.what = "not a possible model",
         .where = where,
         .values = fmt::format("{} is {}", what, value)});
  };
  const auto within = [&](std::string_view what,
                          std::int64_t value,
                          std::int64_t least,
                          std::int64_t most) {
    if (value < least || value > most) {
      refuse(what, value);
    }
  };
  const bool t5 = d.family == ModelFamily::t5;
  within("the number of layers", d.layers, 1, most_layers);
  within("the number of decoder layers", d.decoder_layers, t5, most_layers);
  within("the hidden size", d.hidden, 1, largest_size);
  within("the number of heads", d.heads, 1, largest_size);
  within("the number of key/value heads", d.key_value_heads, 1, d.heads);
  within("the size of a head", d.head_size, 1, largest_size);
  within("the MLP's size", d.ffn, 1, largest_size);
  within("the vocabulary's size", d.vocabulary, 1, largest_size);
  within(
      "the padded vocabulary's size",
      d.padded_vocabulary,
      d.vocabulary,
      largest_size);
  within(
      "the number of positions",
      d.positions,
      d.position == PositionKind::learned,
      largest_size);
  within("the first position", d.position_offset, 0, d.positions);
  within("the number of token types", d.token_types, 0, largest_size);
  const bool relative = d.position == PositionKind::relative;
  within("the number of buckets", d.relative_buckets, relative, largest_size);
  within("the largest distance", d.relative_distance, relative, largest_size);
  if (d.heads % d.key_value_heads != 0) {
    refuse("the number of key/value heads", d.key_value_heads);
  }
  for (const double number :
       {d.rope_theta, d.norm_epsilon, d.dropout, d.attention_dropout}) {
    if (!std::isfinite(number) || number < 0) {
      throw CheckpointError(
          {.what = "not a possible model",
           .where = where,
           .values = fmt::format("{}", number)});
    }
  }
  if (d.experts) {
    check_experts(d, where);
  }
}

std::int64_t experts_in_layer(const ModelDescription& d, std::int64_t layer) {
  if (!d.experts || (layer + 1) % d.experts->interval != 0) {
    return 0;
  }
  const auto place = static_cast<std::size_t>(layer / d.experts->interval);
  const std::int64_t count = d.experts->counts.size() == 1
      ? d.experts->counts[0]
      : d.experts->counts.at(place);
  return count > 1 ? count : 0;
}

} // namespace cairn::checkpoints
