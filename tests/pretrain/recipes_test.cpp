// Every recipe as `cairn pretrain` would take it, on a world of its own size,
// up to where the first process would be needed; and that what `cairn config
// check` counts without libtorch is what the models are made of.

#include "pretrain/describe_model.h"
#include "pretrain/run_plan.h"
#include "pretrain/stages.h"
#include "pretrain/used_flags.h"

#include <cairn/base/file.h>
#include <cairn/checkpoint/model_parameters.h>
#include <cairn/config/model_size.h>
#include <cairn/models/model_layers.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <regex>
#include <string>
#include <vector>

namespace cairn::pretrain::recipes_test {
namespace {

namespace fs = std::filesystem;
using checkpoints::ModelDescription;
using checkpoints::TensorCut;
using ::testing::UnorderedElementsAreArray;
using Words = std::vector<std::string>;

config::ModelKind counted(Kind kind) {
  return config::model_kind_named(name_of(kind)).value();
}

/// With the padding as part of the vocabulary, as memory has it.
ModelDescription padded_model(
    Kind kind,
    const config::Flags& flags,
    std::int64_t vocabulary) {
  ModelDescription model = describe_model(kind, flags, vocabulary);
  model.vocabulary = model.padded_vocabulary;
  return model;
}

std::int64_t parameters_of(const ModelDescription& model, std::int64_t ranks) {
  std::int64_t total = 0;
  for (const auto& parameter : checkpoints::model_parameters(model)) {
    std::int64_t elements = 1;
    for (const std::int64_t size : parameter.shape) {
      elements *= size;
    }
    total += parameter.cut == TensorCut::whole ? elements : elements / ranks;
  }
  return total;
}

void expect_counted(Kind kind, const config::Flags& flags) {
  const config::ModelSize size = config::model_size(counted(kind), flags);
  const std::int64_t ranks = flags.distributed.tensor_parallel;
  const ModelDescription model = padded_model(kind, flags, size.vocabulary);
  EXPECT_EQ(size.padded_vocabulary, model.padded_vocabulary);
  EXPECT_EQ(size.parameters, parameters_of(model, 1));
  const auto layers =
      models::model_layers(model, {}, pretraining_inputs(model, flags)).layers;
  ASSERT_EQ(size.rank_layers.size(), layers.size());
  std::int64_t of_rank = 0;
  std::map<std::string, std::string> ties;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const config::LayerSize& mine = size.rank_layers[i];
    EXPECT_EQ(mine.type, layers[i].type) << i;
    if (ranks == 1) {
      EXPECT_EQ(mine.parameters, layers[i].parameters) << layers[i].name;
    }
    if (!layers[i].tied_key.empty()) {
      const auto [at, first] = ties.try_emplace(mine.tie, layers[i].tied_key);
      EXPECT_EQ(at->second, layers[i].tied_key);
      EXPECT_NE(mine.tie, "") << layers[i].name;
      of_rank += first ? mine.parameters : 0;
    } else {
      of_rank += mine.parameters;
    }
  }
  EXPECT_EQ(of_rank, parameters_of(model, ranks));
}

struct Recipe {
  std::string name;
  double parameters = 0;       ///< that its name says
  std::int64_t vocabulary = 0; ///< 0: of the published files
};

const std::vector<Recipe> recipes{
    {"gpt-125m", 125e6, 52000},
    {"gpt-1.3b", 1.3e9, 52000},
    {"gpt-13b", 13e9, 52000},
    {"gpt-175b", 175e9, 52000},
    {"gpt-345m", 345e6},
    {"bert-345m", 345e6},
    {"t5-220m", 220e6},
    {"gpt3-175b", 175e9},
    {"gpt2-1.5b", 1.5e9},
    {"gpt2-4b", 4e9},
    {"gpt2-8b", 8e9},
    {"gpt2-20b", 20e9},
    {"gpt-530b", 530e9},
    {"gpt-1t", 1e12}};

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
  refuse_unused_flags(config);
  const RunPlan plan = plan_run(config);
  EXPECT_GT(plan.iterations, 0);
  if (GetParam().vocabulary > 0) {
    config.flags.tokenizer.vocab_size = GetParam().vocabulary;
  }
  const config::ModelSize size =
      config::model_size(counted(kind), config.flags);
  const ModelDescription model =
      describe_model(kind, config.flags, size.vocabulary);
  check_stages(model, config, pretraining_inputs(model, config.flags));
  expect_counted(kind, config.flags);
  EXPECT_LT(
      std::abs(static_cast<double>(size.parameters) - GetParam().parameters),
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
    if (entry.is_directory()) {
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
  refuse_unused_flags(config);
  expect_counted(Kind::gpt, config.flags);
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
    expect_counted(GetParam().kind, config.flags);
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
