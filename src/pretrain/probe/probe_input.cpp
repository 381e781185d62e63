#include "pretrain/probe/probe_input.h"

#include "base/internal/edit_distance.h"
#include "pretrain/probe/probe_hidden.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

namespace cairn::pretrain {

namespace {

using model::ModelFamily;
constexpr std::int64_t no_label = -100; // as torch's cross entropy ignores

bool goes_left_to_right(const model::ModelDescription& model) {
  return model.family == ModelFamily::gpt2 ||
      model.family == ModelFamily::llama;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

} // namespace

void ProbeInput::refuse(
    const std::string& name,
    std::string what,
    std::string values,
    std::string remedy) const {
  throw DataError(
      {.what = std::move(what),
       .where = fmt::format("{} ({})", path_.string(), name),
       .values = std::move(values),
       .remedy = std::move(remedy)});
}

ProbeInput::ProbeInput(
    const std::filesystem::path& path,
    const model::ModelDescription& model,
    Steps steps)
    : path_(path), file_(path), model_(model), leading_(steps) {
  const bool data =
      goes_left_to_right(model_) && file_.entries().contains("data");
  tokens_ = data ? "data" : "input_ids";
  find_sizes();
  if (const auto labels = file_.entries().find("labels");
      model_.family == ModelFamily::t5 && labels != file_.entries().end()) {
    const auto& shape = labels->second.shape;
    label_length_ = shape.empty() ? 0 : shape.back();
  }
  for (const Rule& rule : rules()) {
    read(rule);
  }
  if (data) {
    cut_data();
  } else if (goes_left_to_right(model_)) {
    shift_labels();
  } else if (model_.family == ModelFamily::t5) {
    add_decoder_tokens();
  }
  check_lengths();
  for (std::int64_t step = 0; step < steps_ && find("labels"); ++step) {
    if (asked(step, 0, rows_) == 0) {
      refuse(
          "labels",
          "no label asks for anything, so there is no loss",
          steps_ > 1 ? fmt::format("step {}", step) : "");
    }
  }
}

/// Takes the sizes from the tokens; everything else has to fit them.
void ProbeInput::find_sizes() {
  const std::string& name = tokens_;
  const auto found = file_.entries().find(name);
  if (found == file_.entries().end()) {
    refuse(
        name,
        "there is no such tensor in the input",
        fmt::format(
            "it has {}",
            file_.entries().empty() ? "none"
                                    : file_.entries().begin()->first +
                    (file_.entries().size() > 1 ? ", …" : "")),
        "give the batch under the names of Hugging Face's models: input_ids, "
        "labels, …");
  }
  const std::vector<std::int64_t>& shape = found->second.shape;
  const std::size_t plain = 2;
  if (leading_ == Steps::one && shape.size() == plain + 1) {
    refuse(
        name,
        "a dimension for steps",
        shape_text(shape),
        "add --train, or give one batch of [rows, tokens]");
  }
  if (shape.size() != plain &&
      (leading_ == Steps::one || shape.size() != plain + 1)) {
    refuse(
        name,
        leading_ == Steps::one
            ? "tokens are [rows, tokens]"
            : "tokens are [rows, tokens] or [steps, rows, tokens]",
        shape_text(shape));
  }
  if (std::ranges::find(shape, 0) != shape.end()) {
    refuse(name, "an empty batch", shape_text(shape));
  }
  steps_ = shape.size() > plain ? shape[0] : 1;
  rows_ = shape[shape.size() - 2];
  length_ = shape.back();
  label_length_ = length_;
}

std::vector<ProbeInput::Rule> ProbeInput::rules() const {
  const auto& d = model_;
  const std::int64_t words = d.vocabulary;
  if (tokens_ == "data") {
    return {{.name = "data", .below = words, .required = true}};
  }
  std::vector<Rule> rules{
      {.name = "input_ids", .below = words, .required = true},
      {.name = "attention_mask", .below = 2}};
  if (!has_hidden_states_alone(d)) {
    rules.push_back(
        {.name = "labels",
         .shape = Shape::labels,
         .below = words,
         .labels = true,
         .required = true});
  }
  if (d.family == ModelFamily::t5) {
    rules.push_back(
        {.name = "decoder_input_ids",
         .shape = Shape::labels,
         .below = words,
         .required = !d.decoder_start_token});
    rules.push_back(
        {.name = "decoder_attention_mask", .shape = Shape::labels, .below = 2});
    return rules;
  }
  rules.push_back(
      {.name = "position_ids",
       .below =
           d.position == model::PositionKind::learned ? d.positions : length_});
  if (d.token_types > 0) {
    rules.push_back({.name = "token_type_ids", .below = d.token_types});
  }
  if (d.next_sentence_head) {
    rules.push_back(
        {.name = "next_sentence_label",
         .shape = Shape::rows,
         .below = 2,
         .required = true});
  }
  return rules;
}

void ProbeInput::check_shape(const std::string& name, Shape shape) const {
  std::vector<std::int64_t> wanted{rows_};
  if (shape != Shape::rows) {
    wanted.push_back(shape == Shape::text ? length_ : label_length_);
  }
  const std::vector<std::int64_t>& given = file_.at(name).shape;
  if (file_.at(tokens_).shape.size() > 2) {
    wanted.insert(wanted.begin(), steps_);
  }
  if (given != wanted || std::ranges::find(given, 0) != given.end()) {
    refuse(
        name,
        fmt::format("does not fit {}", tokens_),
        fmt::format("{} instead of {}", shape_text(given), shape_text(wanted)));
  }
}

void ProbeInput::check_values(const Rule& rule, const at::Tensor& values)
    const {
  const auto [low, high] = at::aminmax(
      rule.labels ? values.masked_fill(values.eq(no_label), rule.least)
                  : values);
  const auto lowest = low.item<std::int64_t>();
  const auto highest = high.item<std::int64_t>();
  if (lowest < rule.least || highest >= rule.below) {
    refuse(
        rule.name,
        "a value out of range",
        fmt::format(
            "{}, where the model takes {} to {}{}",
            lowest < rule.least ? lowest : highest,
            rule.least,
            rule.below - 1,
            rule.labels ? " and -100" : ""));
  }
}

void ProbeInput::read(const Rule& rule) {
  const auto found = file_.entries().find(rule.name);
  if (found == file_.entries().end()) {
    if (rule.required) {
      refuse(
          rule.name,
          "there is no such tensor in the input",
          "",
          fmt::format(
              "the {} of the checkpoint needs it",
              model::name_of(model_.family)));
    }
    return;
  }
  const at::ScalarType type = found->second.type;
  const bool mask = rule.below == 2 && rule.name.ends_with("mask");
  if (type != at::kLong && type != at::kInt && !(mask && type == at::kBool)) {
    refuse(
        rule.name,
        "of a wrong type",
        std::string(c10::toString(type)),
        "save it as 64-bit integers");
  }
  check_shape(rule.name, rule.shape);
  at::Tensor values = file_.tensor(rule.name).to(at::kLong);
  check_values(rule, values);
  if (steps_ == 1 && values.dim() == (rule.shape == Shape::rows ? 1 : 2)) {
    values = values.unsqueeze(0);
  }
  tensors_[rule.name] = std::move(values);
  if (mask) {
    check_mask(
        rule.name,
        goes_left_to_right(model_) || rule.name.starts_with("decoder"));
  }
}

/// A token that sees nothing has no attention, but a number that is none.
void ProbeInput::check_mask(const std::string& name, bool starts_with_text)
    const {
  const at::Tensor& mask = tensors_.at(name);
  const at::Tensor seen = starts_with_text ? mask.select(2, 0) : mask.amax(2);
  if (seen.eq(0).any().item<bool>()) {
    refuse(
        name,
        starts_with_text ? "a row whose first token is masked sees nothing"
                         : "a row without any text",
        "",
        "pad rows at their ends");
  }
}

/// transformers shifts labels itself.
void ProbeInput::shift_labels() {
  at::Tensor& labels = tensors_.at("labels");
  labels = at::cat(
      {labels.narrow(2, 1, length_ - 1),
       at::full({steps_, rows_, 1}, no_label, labels.options())},
      2);
}

void ProbeInput::cut_data() {
  if (length_ < 2) {
    refuse("data", "a row has at least one token and one to predict");
  }
  const at::Tensor data = tensors_.at("data");
  length_ = --label_length_;
  tensors_["input_ids"] = data.narrow(2, 0, length_).contiguous();
  tensors_["labels"] = data.narrow(2, 1, length_).contiguous();
}

/// Adds the decoder's input where the file has none: the labels shifted right,
/// as transformers shifts them.
void ProbeInput::add_decoder_tokens() {
  if (tensors_.contains("decoder_input_ids")) {
    return;
  }
  const at::Tensor& labels = tensors_.at("labels");
  const at::Tensor start = at::full(
      {steps_, rows_, 1},
      *model_.decoder_start_token,
      labels.options());
  const at::Tensor shifted =
      at::cat({start, labels.narrow(2, 0, label_length_ - 1)}, 2);
  tensors_["decoder_input_ids"] =
      shifted.masked_fill(shifted.eq(no_label), model_.pad_token.value_or(0));
}

void ProbeInput::check_lengths() const {
  if (model_.position != model::PositionKind::learned) {
    return;
  }
  const std::int64_t longest = model_.positions - model_.position_offset;
  const std::int64_t length = std::max(length_, label_length_);
  if (length > longest) {
    refuse(
        length == length_ ? "input_ids" : "labels",
        "longer than the model has positions for",
        fmt::format("{} tokens, {} positions", length, longest));
  }
}

const at::Tensor* ProbeInput::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

models::ModelInput ProbeInput::batch(
    std::int64_t step,
    std::int64_t first,
    std::int64_t rows) const {
  const auto part = [&](const char* name) {
    const at::Tensor* all = find(name);
    return all == nullptr ? at::Tensor()
                          : all->select(0, step).narrow(0, first, rows);
  };
  models::ModelInput input{.tokens = part("input_ids")};
  input.labels = part("labels");
  input.mask = part("attention_mask");
  input.token_types = part("token_type_ids");
  input.next_sentence = part("next_sentence_label");
  input.decoder_tokens = part("decoder_input_ids");
  input.decoder_mask = part("decoder_attention_mask");
  input.positions = part("position_ids");
  if (input.positions.defined()) {
    input.positions = input.positions - model_.position_offset;
  }
  return input;
}

std::int64_t ProbeInput::asked(
    std::int64_t step,
    std::int64_t first,
    std::int64_t rows) const {
  return tensors_.at("labels")
      .select(0, step)
      .narrow(0, first, rows)
      .ge(0)
      .sum()
      .item<std::int64_t>();
}

models::LayerInputs ProbeInput::layer_inputs() const {
  using models::ModelInput;
  models::LayerInputs fields;
  const auto bring = [&](const char* name,
                         at::Tensor ModelInput::*field,
                         models::LayerInputs::Fields& to) {
    if (find(name) != nullptr) {
      to.push_back(field);
    }
  };
  bring("position_ids", &ModelInput::positions, fields.inputs);
  bring("attention_mask", &ModelInput::mask, fields.inputs);
  bring("token_type_ids", &ModelInput::token_types, fields.inputs);
  bring("decoder_input_ids", &ModelInput::decoder_tokens, fields.inputs);
  bring("decoder_attention_mask", &ModelInput::decoder_mask, fields.inputs);
  bring("next_sentence_label", &ModelInput::next_sentence, fields.labels);
  return fields;
}

std::map<std::string, at::Tensor> ProbeInput::expected(
    const std::map<std::string, std::vector<std::int64_t>>& results) const {
  std::vector<std::string_view> known;
  for (const auto& [name, shape] : results) {
    known.push_back(name);
  }
  const std::vector<Rule> inputs = rules();
  for (const Rule& rule : inputs) {
    known.push_back(rule.name);
  }
  std::map<std::string, at::Tensor> found;
  for (const auto& [name, entry] : file_.entries()) {
    if (std::ranges::find(inputs, name, &Rule::name) != inputs.end()) {
      continue;
    }
    const auto result = results.find(name);
    if (result == results.end()) {
      const auto closest = nearest(name, known);
      refuse(
          name,
          fmt::format(
              "a tensor that the {} of the checkpoint has no use for",
              model::name_of(model_.family)),
          "",
          closest ? fmt::format("did you mean \"{}\"?", *closest)
                  : "leave it out");
    }
    if (entry.shape != result->second) {
      refuse(
          name,
          "a result of another shape, so there is nothing to compare",
          fmt::format(
              "{} instead of {}",
              shape_text(entry.shape),
              shape_text(result->second)));
    }
    found[name] = file_.tensor(name).to(at::kDouble);
  }
  return found;
}

} // namespace cairn::pretrain
