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

  Json object_;
  std::string where_;
};

} // namespace

std::string_view name_of(ModelFamily family) {
  return choice_name(family);
}

std::string to_json(const ModelDescription& description) {
  Json object = Json::object();
  visit_fields(description, [&](const char* name, const auto& value) {
    object[name] = to_value(value);
  });
  return object.dump(2);
}

ModelDescription model_description_from_json(
    std::string_view text,
    const std::string& where) {
  ModelDescription description;
  try {
    Members members(Json::parse(text), where);
    visit_fields(description, members);
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
}

} // namespace cairn::checkpoints
