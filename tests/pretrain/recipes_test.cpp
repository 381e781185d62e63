// Every recipe as `cairn pretrain` would take it, on a world of its own size,
// up to the first process. The counts of `cairn config check`, made without
// libtorch, must be those of the models.

#include "config/internal/actors.h"
#include "config/internal/describe_model.h"
#include "pretrain/internal/pretrain.h"
#include "pretrain/internal/stages.h"
#include "pretrain/plan/run_plan.h"

#include <cairn/base/file.h>
#include <cairn/model/parameters.h>
#include <cairn/models/model_layers.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace cairn::pretrain::recipes_test {
namespace {

namespace fs = std::filesystem;
using model::ModelDescription;
using ::testing::UnorderedElementsAreArray;
using Words = std::vector<std::string>;

ModelDescription described(Kind kind, const config::Flags& flags) {
  return config::describe_model(
      kind,
      flags,
      config::expected_vocabulary(kind, flags.tokenizer));
}

/// Compares the counted layers with those that would be built, which have
/// padding, but no memory here.
void expect_counted(const ModelDescription& model, const config::Flags& flags) {
  const ModelDescription padded = model::with_padding(model);
  const auto layers = models::model_layers(
                          padded,
                          {.device = at::kMeta, .seed = std::nullopt},
                          pretraining_inputs(padded, flags))
                          .layers;
  std::int64_t sum = 0;
  std::set<std::string> ties;
  for (const models::ModelLayer& layer : layers) {
    const auto module = layer.build();
    std::int64_t held = 0;
    for (const at::Tensor& parameter : module->parameters()) {
      held += parameter.numel();
    }
    EXPECT_EQ(layer.parameters, held) << layer.name;
    if (layer.tie.empty() || ties.insert(layer.tie).second) {
      sum += held;
    }
  }
  EXPECT_EQ(model::count_parameters(padded).all, sum);
}

struct Recipe {
  std::string name;
  double parameters = 0;       ///< by its name
  std::int64_t vocabulary = 0; ///< 0: that of the published files
};

const std::vector<Recipe> recipes{
    {"gpt-125m", 125e6, 52000}, {"gpt-1.3b", 1.3e9, 52000},
    {"gpt-13b", 13e9, 52000},   {"gpt-175b", 175e9, 52000},
    {"gpt-345m", 345e6},        {"bert-345m", 345e6},
    {"t5-220m", 220e6},         {"gpt3-175b", 175e9},
    {"gpt2-1.5b", 1.5e9},       {"gpt2-4b", 4e9},
    {"gpt2-8b", 8e9},           {"gpt2-20b", 20e9},
    {"gpt-1.7b", 1.7e9},        {"gpt-3.6b", 3.6e9},
    {"gpt-7.5b", 7.5e9},        {"gpt-18b", 18.4e9},
    {"gpt-39b", 39.1e9},        {"gpt-76b", 76.1e9},
    {"gpt-145b", 145.6e9},      {"gpt-310b", 310.1e9},
    {"gpt-530b", 530e9},        {"gpt-1t", 1e12}};

/// Recipes name files from the folder that holds recipes/.
class InSourceFolder : public ::testing::Test {
 protected:
  InSourceFolder() : before_(fs::current_path()) {
    fs::current_path(CAIRN_SOURCE_DIR);
  }
  ~InSourceFolder() override { fs::current_path(before_); }

 private:
  fs::path before_;
};

class Recipes : public InSourceFolder,
                public ::testing::WithParamInterface<Recipe> {
 protected:
  static std::string found(const std::string& text, const char* pattern) {
    std::smatch match;
    return std::regex_search(text, match, std::regex(pattern)) ? match[1].str()
                                                               : std::string();
  }
};

TEST_P(Recipes, IsWhatPretrainTakesOnAWorldOfItsSize) {
  const std::string folder = "recipes/" + GetParam().name;
  const std::string launch = read_file(folder + "/launch.sh", 1 << 16);
  const std::string nodes = found(launch, R"(NNODES:-(\d+))");
  const std::int64_t world = (nodes.empty() ? 1 : std::stoll(nodes)) *
      std::stoll(found(launch, R"(GPUS_PER_NODE:-(\d+))"));
  const std::string name = found(launch, R"(pretrain (\w+) @)");
  const Kind kind = name == "bert" ? Kind::bert
      : name == "t5"               ? Kind::t5
                                   : Kind::gpt;
  EXPECT_EQ(name, name_of(kind));

  config::Config config = config::Config::load(
      {.flags = {"@" + folder + "/flags"}, .world_size = world});
  EXPECT_THAT(config.warnings, ::testing::IsEmpty());
  config::refuse_unused_flags(config, config::Actor::pretrain);
  const RunPlan plan = plan_run(config);
  EXPECT_GT(plan.iterations, 0);
  if (GetParam().vocabulary > 0) {
    config.flags.tokenizer.vocab_size = GetParam().vocabulary;
  }
  const ModelDescription model = described(kind, config.flags);
  check_stages(model, config, pretraining_inputs(model, config.flags));
  expect_counted(model, config.flags);
  const auto parameters = static_cast<double>(
      model::count_parameters(model::with_padding(model)).all);
  EXPECT_LT(
      std::abs(parameters - GetParam().parameters),
      GetParam().parameters * 0.05);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    Recipes,
    ::testing::ValuesIn(recipes),
    [](const auto& each) {
      return std::regex_replace(each.param.name, std::regex("[-.]"), "_");
    });

TEST(RecipesFolder, HasNoOthers) {
  Words folders;
  for (const auto& entry :
       fs::directory_iterator(fs::path(CAIRN_SOURCE_DIR) / "recipes")) {
    if (fs::exists(entry.path() / "flags")) {
      folders.push_back(entry.path().filename());
    }
  }
  Words names;
  for (const Recipe& recipe : recipes) {
    names.push_back(recipe.name);
  }
  EXPECT_THAT(folders, UnorderedElementsAreArray(names));
}

// Document 003's own arithmetic: 2.5e9 tokens are 4769 steps, as its
// checkpoint iter_0004769 says.
TEST_F(InSourceFolder, TheRecipeOf125MHasTheDocumentsSteps) {
  const config::Config config =
      config::Config::load({.flags = {"@recipes/gpt-125m/flags"}});
  EXPECT_EQ(plan_run(config).iterations, 4769);
}

TEST_F(InSourceFolder, TheRecipeOf345MAlsoRunsOnTheDocumentsMesh) {
  const config::Config config = config::Config::load(
      {.flags =
           {"@recipes/gpt-345m/flags",
            "--tensor-model-parallel-size",
            "2",
            "--pipeline-model-parallel-size",
            "2",
            "--DDP-impl",
            "torch"},
       .world_size = 8});
  EXPECT_EQ(config.data_parallel_size, 2);
  config::refuse_unused_flags(config, config::Actor::pretrain);
  expect_counted(described(Kind::gpt, config.flags), config.flags);
}

struct Variant {
  const char* name;
  Kind kind{};
  Words flags;
};

class Counting : public ::testing::TestWithParam<Variant> {};

TEST_P(Counting, IsThatOfTheModel) {
  for (const std::int64_t ranks : {1, 2}) {
    Words flags{
        "--num-layers",
        "3",
        "--hidden-size",
        "64",
        "--num-attention-heads",
        "4",
        "--seq-length",
        "32",
        "--vocab-size",
        "1000",
        "--tensor-model-parallel-size",
        std::to_string(ranks)};
    flags.insert(flags.end(), GetParam().flags.begin(), GetParam().flags.end());
    const config::Config config =
        config::Config::load({.flags = flags, .world_size = ranks});
    SCOPED_TRACE(ranks);
    expect_counted(described(GetParam().kind, config.flags), config.flags);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds,
    Counting,
    ::testing::Values(
        Variant{"gpt", Kind::gpt, {}},
        Variant{"experts", Kind::gpt, {"--num-experts", "4"}},
        Variant{
            "residual_experts",
            Kind::gpt,
            {"--num-experts",
             "4",
             "--expert-interval",
             "1",
             "--mlp-type",
             "residual",
             "--swiglu"}},
        Variant{
            "untied",
            Kind::gpt,
            {"--untie-embeddings-and-output-weights",
             "--max-position-embeddings",
             "48"}},
        Variant{
            "llama",
            Kind::gpt,
            {"--normalization",
             "RMSNorm",
             "--use-rotary-position-embeddings",
             "--swiglu",
             "--disable-bias-linear",
             "--untie-embeddings-and-output-weights",
             "--num-key-value-heads",
             "2"}},
        Variant{
            "query_bias",
            Kind::gpt,
            {"--disable-bias-linear",
             "--add-qkv-bias",
             "--kv-channels",
             "24",
             "--ffn-hidden-size",
             "96"}},
        Variant{
            "query_norm",
            Kind::gpt,
            {"--normalization",
             "RMSNorm",
             "--use-rotary-position-embeddings",
             "--swiglu",
             "--disable-bias-linear",
             "--qk-layernorm"}},
        Variant{
            "side_by_side",
            Kind::gpt,
            {"--use-rotary-position-embeddings",
             "--rotary-percent",
             "0.5",
             "--use-parallel-residual",
             "--qk-layernorm"}},
        Variant{"bert", Kind::bert, {}},
        Variant{"bert_alone", Kind::bert, {"--bert-no-binary-head"}},
        Variant{"t5", Kind::t5, {"--decoder-num-layers", "2"}},
        Variant{
            "t5_relative",
            Kind::t5,
            {"--position-embedding-type",
             "relative",
             "--decoder-seq-length",
             "16"}}),
    [](const auto& each) { return std::string(each.param.name); });

} // namespace
} // namespace cairn::pretrain::recipes_test
