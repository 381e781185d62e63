#pragma once

#include <cairn/model/description.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace cairn::model {

// Names of the choices of a ModelDescription in JSON and in messages.

template <typename Choice>
struct ChoiceNames;

template <>
struct ChoiceNames<ModelFamily> {
  static constexpr std::array<std::pair<ModelFamily, std::string_view>, 5> all{
      {{ModelFamily::gpt2, "gpt2"},
       {ModelFamily::llama, "llama"},
       {ModelFamily::bert, "bert"},
       {ModelFamily::roberta, "roberta"},
       {ModelFamily::t5, "t5"}}};
};

template <>
struct ChoiceNames<ModelKind> {
  static constexpr std::array<std::pair<ModelKind, std::string_view>, 3> all{
      {{ModelKind::gpt, "gpt"},
       {ModelKind::bert, "bert"},
       {ModelKind::t5, "t5"}}};
};

template <>
struct ChoiceNames<NormKind> {
  static constexpr std::array<std::pair<NormKind, std::string_view>, 2> all{
      {{NormKind::layer_norm, "layer_norm"}, {NormKind::rms_norm, "rms_norm"}}};
};

template <>
struct ChoiceNames<NormPlace> {
  static constexpr std::array<std::pair<NormPlace, std::string_view>, 2> all{
      {{NormPlace::before, "before"}, {NormPlace::after, "after"}}};
};

template <>
struct ChoiceNames<PositionKind> {
  static constexpr std::array<std::pair<PositionKind, std::string_view>, 3> all{
      {{PositionKind::learned, "learned"},
       {PositionKind::rotary, "rotary"},
       {PositionKind::relative, "relative"}}};
};

template <>
struct ChoiceNames<ActivationKind> {
  static constexpr std::array<std::pair<ActivationKind, std::string_view>, 5>
      all{
          {{ActivationKind::gelu, "gelu"},
           {ActivationKind::gelu_tanh, "gelu_tanh"},
           {ActivationKind::relu, "relu"},
           {ActivationKind::silu, "silu"},
           {ActivationKind::squared_relu, "squared_relu"}}};
};

template <>
struct ChoiceNames<RouterNoise> {
  static constexpr std::array<std::pair<RouterNoise, std::string_view>, 3> all{
      {{RouterNoise::none, "none"},
       {RouterNoise::jitter, "jitter"},
       {RouterNoise::sample, "sample"}}};
};

template <typename Choice>
constexpr std::string_view choice_name(Choice choice) {
  for (const auto& [value, name] : ChoiceNames<Choice>::all) {
    if (value == choice) {
      return name;
    }
  }
  return "?";
}

template <typename Choice>
constexpr std::optional<Choice> choice_of(std::string_view name) {
  for (const auto& [value, known] : ChoiceNames<Choice>::all) {
    if (known == name) {
      return value;
    }
  }
  return std::nullopt;
}

} // namespace cairn::model
