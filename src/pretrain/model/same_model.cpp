#include "pretrain/internal/same_model.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::pretrain {

namespace {

using model::ModelDescription;

/// Members of a description that do not change the meaning of weights.
constexpr std::array<std::string_view, 8> chosen_freely{
    "vocabulary", // may have more rows than the tokenizer has tokens
    "padded_vocabulary",
    "dropout",
    "attention_dropout",
    "begin_token",
    "end_token",
    "pad_token",
    "decoder_start_token"};

constexpr std::array<std::pair<std::string_view, std::string_view>, 30>
    flags_of{
        {{"layers", "--num-layers"},
         {"decoder_layers", "--decoder-num-layers"},
         {"hidden", "--hidden-size"},
         {"heads", "--num-attention-heads"},
         {"key_value_heads", "--num-key-value-heads"},
         {"head_size", "--kv-channels"},
         {"ffn", "--ffn-hidden-size"},
         {"positions", "--max-position-embeddings"},
         {"position", "--position-embedding-type"},
         {"position", "--use-rotary-position-embeddings"},
         {"rope_theta", "--rotary-base"},
         {"rotary_size", "--rotary-percent"},
         {"rope_scaling", "--use-rope-scaling"},
         {"norm", "--normalization"},
         {"norm_epsilon", "--norm-epsilon"},
         {"activation", "--openai-gelu"},
         {"activation", "--no-bias-gelu-fusion"},
         {"activation", "--swiglu"},
         {"gated", "--swiglu"},
         {"attention_bias", "--disable-bias-linear"},
         {"query_key_value_bias", "--add-qkv-bias"},
         {"query_key_value_bias", "--disable-bias-linear"},
         {"query_key_norm", "--qk-layernorm"},
         {"parallel_residual", "--use-parallel-residual"},
         {"mlp_bias", "--disable-bias-linear"},
         {"tied_head", "--untie-embeddings-and-output-weights"},
         {"next_sentence_head", "--bert-no-binary-head"},
         {"experts", "--num-experts"},
         {"experts", "--expert-interval"},
         {"experts", "--mlp-type"}}};

/// Members to compare. Positions that are computed have no longest one.
nlohmann::json comparable(ModelDescription model) {
  if (model.position != model::PositionKind::learned) {
    model.positions = 0;
  }
  auto members = nlohmann::json::parse(model::to_json(model));
  for (const std::string_view name : chosen_freely) {
    members.erase(std::string(name));
  }
  // The way in which experts get their tokens may change, the experts may not.
  members["experts"] = !model.experts
      ? nlohmann::json()
      : nlohmann::json{
            {"counts", model.experts->counts},
            {"interval", model.experts->interval},
            {"residual", model.experts->residual}};
  return members;
}

} // namespace

std::vector<ModelDifference> model_differences(
    const ModelDescription& stored,
    const ModelDescription& described) {
  const nlohmann::json theirs = comparable(stored);
  const nlohmann::json ours = comparable(described);
  std::vector<ModelDifference> differences;
  for (const auto& [name, value] : theirs.items()) {
    if (ours.at(name) == value) {
      continue;
    }
    ModelDifference difference{fmt::format(
        "{} {} there, {} here",
        name,
        value.dump(),
        ours.at(name).dump())};
    for (const auto& [member, flag] : flags_of) {
      if (member == name) {
        difference.flags.push_back(flag);
      }
    }
    differences.push_back(std::move(difference));
  }
  if (stored.vocabulary < described.vocabulary) {
    differences.push_back(
        {fmt::format(
             "{} words there, {} in the tokenizer",
             stored.vocabulary,
             described.vocabulary),
         {"the tokenizer that the model was made for"}});
  }
  return differences;
}

void refuse_differences(
    const std::string& place,
    const std::vector<ModelDifference>& differences) {
  if (differences.empty()) {
    return;
  }
  std::vector<std::string_view> texts;
  std::vector<std::string_view> flags;
  for (const ModelDifference& difference : differences) {
    texts.push_back(difference.text);
    for (const std::string_view flag : difference.flags) {
      if (std::ranges::find(flags, flag) == flags.end()) {
        flags.push_back(flag);
      }
    }
  }
  throw ConfigError(
      {.what = "the checkpoint's model is another than the flags describe",
       .where = "--load " + place,
       .values = fmt::format("{}", fmt::join(texts, "; ")),
       .remedy = flags.empty()
           ? std::string("no flags describe such a model")
           : fmt::format("look at {}", fmt::join(flags, ", "))});
}

} // namespace cairn::pretrain
