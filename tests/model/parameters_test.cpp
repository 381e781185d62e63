#include "model/small_llama.h"

#include <cairn/model/parameters.h>
#include <cairn/model/presets.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::model::parameters_test {
namespace {

using ::testing::ElementsAre;

TEST(ModelParameters, OfLlama) {
  using Shape = std::vector<std::int64_t>;
  const auto whole = TensorCut::whole;
  const auto rows = TensorCut::rows;
  const auto columns = TensorCut::columns;
  const auto vocabulary = TensorCut::vocabulary;
  const auto one = InitialLaw::one;
  const auto normal = InitialLaw::normal;
  const auto output = InitialLaw::output_normal;
  const std::string block = "layers.0";
  EXPECT_THAT(
      model_parameters(small_llama()),
      ElementsAre(
          ModelParameter{
              "embedding.word.weight",
              Shape{10, 8},
              vocabulary,
              normal,
              "embedding.word"},
          ModelParameter{
              "layers.0.input_norm.weight",
              Shape{8},
              whole,
              one,
              block},
          ModelParameter{
              "layers.0.attention.query_key_value.weight",
              Shape{16, 8},
              rows,
              normal,
              block},
          ModelParameter{
              "layers.0.attention.dense.weight",
              Shape{8, 8},
              columns,
              output,
              block},
          ModelParameter{
              "layers.0.post_attention_norm.weight",
              Shape{8},
              whole,
              one,
              block},
          ModelParameter{
              "layers.0.mlp.gate.weight",
              Shape{12, 8},
              rows,
              normal,
              block},
          ModelParameter{
              "layers.0.mlp.up.weight",
              Shape{12, 8},
              rows,
              normal,
              block},
          ModelParameter{
              "layers.0.mlp.down.weight",
              Shape{8, 12},
              columns,
              output,
              block},
          ModelParameter{
              "final_norm.weight",
              Shape{8},
              whole,
              one,
              "final_norm"},
          ModelParameter{
              "head.weight",
              Shape{10, 8},
              vocabulary,
              normal,
              "head"}));
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
  const std::string block = "layers.1";
  const auto whole = TensorCut::whole;
  const auto rows = TensorCut::rows;
  const auto columns = TensorCut::columns;
  const auto third = TensorCut::third;
  const auto normal = InitialLaw::normal;
  const auto output = InitialLaw::output_normal;
  const auto zero = InitialLaw::zero;
  const auto parameter = [&](const char* name,
                             Shape shape,
                             TensorCut cut,
                             InitialLaw initial = InitialLaw::normal) {
    return ModelParameter{mlp + name, std::move(shape), cut, initial, block};
  };
  EXPECT_THAT(
      second,
      ElementsAre(
          parameter("router.weight", {6, 8}, whole),
          parameter("residual.gate.weight", {12, 8}, rows),
          parameter("residual.up.weight", {12, 8}, rows),
          parameter("residual.down.weight", {8, 12}, columns, output),
          parameter("coefficient.weight", {2, 8}, whole, normal),
          parameter("coefficient.bias", {2}, whole, zero),
          parameter("experts.gate.weight", {6, 12, 8}, columns),
          parameter("experts.up.weight", {6, 12, 8}, columns),
          parameter("experts.down.weight", {6, 8, 12}, third, output)));
}

TEST(ModelParameters, AreCountedByTheirShapes) {
  const ParameterCount dense = count_parameters(small_llama());
  EXPECT_EQ(dense.all, 2 * 10 * 8 + 3 * 8 + 16 * 8 + 8 * 8 + 3 * 8 * 12);
  EXPECT_EQ(dense.active, dense.all);
  const ParameterCount sparse = count_parameters(llama_with_experts());
  EXPECT_EQ(sparse.all - sparse.active, 5 * 3 * 8 * 12); // one of six is used
}

TEST(ModelLayers, AreInTheOrderOfAForwardPass) {
  const auto names = [](const ModelDescription& description) {
    std::vector<std::string> result;
    for (const Layer& layer : layers_of(description)) {
      result.push_back(layer.name);
    }
    return result;
  };
  const ModelSizes sizes{.layers = 1, .hidden = 8, .heads = 2, .sequence = 4};
  EXPECT_THAT(
      names(t5_description(sizes)),
      ElementsAre(
          "embedding.word",
          "embedding",
          "encoder.layers.0",
          "encoder.final_norm",
          "embedding.word",
          "embedding",
          "decoder.layers.0",
          "decoder.final_norm",
          "head",
          "embedding.word"));
  EXPECT_THAT(
      names(bert_description(sizes)),
      ElementsAre(
          "embedding.word",
          "embedding",
          "layers.0",
          "final_norm",
          "pooler",
          "next_sentence",
          "mlm",
          "embedding.word"));
}

TEST(ModelLayers, HaveAllParameters) {
  const ModelSizes sizes{.layers = 3, .hidden = 8, .heads = 2, .sequence = 4};
  for (const ModelDescription& description :
       {gpt_description(sizes),
        llama_description(sizes, 1, 12),
        bert_description(sizes),
        t5_description(sizes),
        roberta_small_description(),
        llama_with_experts()}) {
    std::int64_t sum = 0;
    std::int64_t idle = 0;
    std::set<std::string> ties;
    for (const Layer& layer : layers_of(description)) {
      if (layer.tie.empty() || ties.insert(layer.tie).second) {
        sum += layer.parameters;
        idle += layer.idle;
      }
    }
    const ParameterCount count = count_parameters(description);
    EXPECT_EQ(sum, count.all) << to_json(description);
    EXPECT_EQ(sum - idle, count.active) << to_json(description);
  }
}

TEST(ModelLayers, AreSharedByTensorParallelRanks) {
  const ModelDescription description = with_padding(small_llama());
  const auto whole = layers_of(description);
  const auto half = layers_of(description, 2);
  ASSERT_EQ(whole[2].name, "layers.0");
  EXPECT_EQ(half[0].parameters, whole[0].parameters / 2);
  EXPECT_EQ(half[2].parameters, (whole[2].parameters - 2 * 8) / 2 + 2 * 8);
}

TEST(InitialLaw, IsSmallerForDeepStacks) {
  EXPECT_DOUBLE_EQ(output_deviation(0.02, 8), 0.005);
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
} // namespace cairn::model::parameters_test
