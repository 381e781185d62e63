#include "support/error_text.h"

#include <cairn/base/error.h>
#include <cairn/checkpoint/model_description.h>
#include <cairn/checkpoint/model_parameters.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace cairn::checkpoints::model_description_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelDescription small_llama() {
  return {
      .family = ModelFamily::llama,
      .layers = 1,
      .hidden = 8,
      .heads = 4,
      .key_value_heads = 2,
      .head_size = 2,
      .ffn = 12,
      .vocabulary = 10,
      .padded_vocabulary = 16,
      .positions = 32,
      .position = PositionKind::rotary,
      .rope_scaling = RopeScaling{"llama3", 8, 1, 4, 8192},
      .norm = NormKind::rms_norm,
      .activation = ActivationKind::silu,
      .gated = true,
      .attention_bias = false,
      .mlp_bias = false,
      .tied_head = false,
      .end_token = 2};
}

ModelDescription parsed(const std::string& text) {
  return model_description_from_json(text, "x.json");
}

TEST(ModelDescription, GoesThroughJson) {
  const ModelDescription description = small_llama();
  EXPECT_EQ(parsed(to_json(description)), description);
  EXPECT_THAT(to_json(description), HasSubstr("\"family\": \"llama\""));
}

ModelDescription llama_with_experts() {
  ModelDescription description = small_llama();
  description.layers = 4;
  description.experts = ExpertsDescription{
      .counts = {6, 1},
      .residual = true,
      .noise = RouterNoise::jitter};
  return description;
}

TEST(ModelDescription, ExpertsGoThroughJson) {
  const ModelDescription description = llama_with_experts();
  EXPECT_EQ(parsed(to_json(description)), description);
  EXPECT_THAT(to_json(description), HasSubstr("\"noise\": \"jitter\""));
  EXPECT_THAT(
      to_json(small_llama()),
      ::testing::Not(HasSubstr("experts"))); // as before there were some
  EXPECT_EQ(experts_in_layer(description, 0), 0);
  EXPECT_EQ(experts_in_layer(description, 1), 6);
  EXPECT_EQ(experts_in_layer(description, 2), 0);
  EXPECT_EQ(experts_in_layer(description, 3), 0); // one is an MLP
}

TEST(ModelDescription, RefusesExpertsThatCannotBe) {
  const auto error = [](const auto& change) {
    ModelDescription description = llama_with_experts();
    change(description);
    return error_text<CheckpointError>([&] { check(description, "x"); });
  };
  using D = ModelDescription;
  EXPECT_THAT(
      error([](D& d) { d.family = ModelFamily::bert; }),
      HasSubstr("of the GPT family"));
  EXPECT_THAT(
      error([](D& d) { d.experts->interval = 5; }),
      HasSubstr("experts in every 5 of 4 layers"));
  EXPECT_THAT(
      error([](D& d) {
        d.experts->counts = {2, 2, 2};
      }),
      HasSubstr("3 numbers of experts for 2 layers"));
  EXPECT_THAT(
      error([](D& d) { d.experts->counts = {1 << 20}; }),
      HasSubstr("1048576 experts in a layer"));
  EXPECT_THAT(
      error([](D& d) { d.experts->top_k = 3; }),
      HasSubstr("3 experts for a token"));
  EXPECT_THAT(
      error([](D& d) { d.experts->eval_capacity_factor = 0; }),
      HasSubstr("a capacity factor of 0"));
  EXPECT_THAT(
      error([](D& d) { d.experts->loss_coefficient = -1; }),
      HasSubstr("a loss coefficient of -1"));
}

TEST(ModelDescription, RefusesOtherJson) {
  const auto error = [](const std::string& text) {
    return error_text<CheckpointError>([&] { parsed(text); });
  };
  std::string text = to_json(small_llama());
  EXPECT_THAT(error("[1]"), HasSubstr("x.json: a JSON object is wanted"));
  EXPECT_THAT(error("{"), HasSubstr("x.json: not a model's description"));
  EXPECT_THAT(error("{}"), HasSubstr("a key is missing (family)"));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    return other;
  };
  EXPECT_THAT(
      error(changed("\"llama\"", "\"lama\"")),
      HasSubstr("an unknown value (family: \"lama\")"));
  EXPECT_THAT(
      error(changed("\"layers\": 1,", "\"layers\": 1, \"more\": 2,")),
      HasSubstr("an unknown key (more)"));
  EXPECT_THAT(
      error(changed("\"layers\": 1,", "\"layers\": 1.5,")),
      HasSubstr("a whole number is wanted (layers)"));
  EXPECT_THAT(
      error(changed("\"layers\": 1,", "\"layers\": 1000000000000,")),
      HasSubstr("the number of layers is 1000000000000"));
  EXPECT_THAT(
      error(changed("\"key_value_heads\": 2", "\"key_value_heads\": 3")),
      HasSubstr("the number of key/value heads is 3"));
}

TEST(ModelParameters, OfLlama) {
  using Shape = std::vector<std::int64_t>;
  const auto whole = TensorCut::whole;
  const auto rows = TensorCut::rows;
  const auto columns = TensorCut::columns;
  const auto vocabulary = TensorCut::vocabulary;
  EXPECT_THAT(
      model_parameters(small_llama()),
      ElementsAre(
          ModelParameter{"embedding.word.weight", Shape{10, 8}, vocabulary},
          ModelParameter{"layers.0.input_norm.weight", Shape{8}, whole},
          ModelParameter{
              "layers.0.attention.query_key_value.weight",
              Shape{16, 8},
              rows},
          ModelParameter{
              "layers.0.attention.dense.weight",
              Shape{8, 8},
              columns},
          ModelParameter{
              "layers.0.post_attention_norm.weight",
              Shape{8},
              whole},
          ModelParameter{"layers.0.mlp.gate.weight", Shape{12, 8}, rows},
          ModelParameter{"layers.0.mlp.up.weight", Shape{12, 8}, rows},
          ModelParameter{"layers.0.mlp.down.weight", Shape{8, 12}, columns},
          ModelParameter{"final_norm.weight", Shape{8}, whole},
          ModelParameter{"head.weight", Shape{10, 8}, vocabulary}));
  EXPECT_TRUE(model_ties(small_llama()).empty());
}

TEST(ModelParameters, ExpertsAreStacked) {
  using Shape = std::vector<std::int64_t>;
  std::vector<ModelParameter> second;
  for (const ModelParameter& parameter :
       model_parameters(llama_with_experts())) {
    if (parameter.name.starts_with("layers.1.mlp.")) {
      second.push_back(parameter);
    }
    EXPECT_FALSE(parameter.name.starts_with("layers.3.mlp.experts"));
  }
  const std::string mlp = "layers.1.mlp.";
  const auto columns = TensorCut::columns;
  EXPECT_THAT(
      second,
      ElementsAre(
          ModelParameter{mlp + "router.weight", Shape{6, 8}},
          ModelParameter{
              mlp + "residual.gate.weight",
              Shape{12, 8},
              TensorCut::rows},
          ModelParameter{
              mlp + "residual.up.weight",
              Shape{12, 8},
              TensorCut::rows},
          ModelParameter{mlp + "residual.down.weight", Shape{8, 12}, columns},
          ModelParameter{mlp + "coefficient.weight", Shape{2, 8}},
          ModelParameter{mlp + "coefficient.bias", Shape{2}},
          ModelParameter{mlp + "experts.gate.weight", Shape{6, 12, 8}, columns},
          ModelParameter{mlp + "experts.up.weight", Shape{6, 12, 8}, columns},
          ModelParameter{
              mlp + "experts.down.weight",
              Shape{6, 8, 12},
              TensorCut::third}));
}

TEST(ModelParameters, BiasesFollowTheirWeights) {
  ModelDescription description = small_llama();
  description.attention_bias = true;
  description.tied_head = true;
  const auto parameters = model_parameters(description);
  const auto cut_of = [&](const std::string& name) {
    return std::ranges::find(parameters, name, &ModelParameter::name)->cut;
  };
  EXPECT_EQ(cut_of("layers.0.attention.query_key_value.bias"), TensorCut::rows);
  EXPECT_EQ(cut_of("layers.0.attention.dense.bias"), TensorCut::whole);
  EXPECT_EQ(model_ties(description).front().second, "embedding.word.weight");
}

} // namespace
} // namespace cairn::checkpoints::model_description_test
