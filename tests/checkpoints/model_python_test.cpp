#include "same_tensors.h"
#include "support/golden_tensors.h"
#include "support/python.h"
#include "support/temporary_folder.h"

#include <ATen/ops/arange.h>
#include <cairn/checkpoints/huggingface.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/checkpoints/safetensors.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

// Models that Cairn wrote, opened by the programs that they are meant for.

namespace cairn::checkpoints::model_python_test {
namespace {

namespace fs = std::filesystem;

fs::path golden(const std::string& model) {
  return fs::path(CAIRN_GOLDEN_DIR) / "models" / model;
}

/// Random, small numbers: the models can compute with them.
NamedTensors random_weights(const model::ModelDescription& description) {
  NamedTensors tensors = numbered(description);
  for (auto& [name, tensor] : tensors) {
    tensor = {tensor.type, tensor.shape, [numbers = tensor.load()] {
                return numbers.sin().mul(0.05);
              }};
  }
  return tensors;
}

TEST(RealPython, TransformersLoadsOurFolders) {
  const testing::TemporaryFolder folder;
  for (const char* model :
       {"gpt2",
        "bert",
        "llama",
        "t5_relu",
        "t5_gated_gelu",
        "qwen2",
        "qwen3",
        "gpt_neox",
        "mixtral"}) {
    const HuggingFaceModel read = read_huggingface(golden(model));
    write_huggingface(folder / model, read.description, read.tensors);
    fs::copy_file(
        golden(model) / "io.safetensors",
        folder / model / "io.safetensors");
  }
  const HuggingFaceModel llama = read_huggingface(golden("llama"));
  write_huggingface(
      folder / "llama_shards",
      llama.description,
      llama.tensors,
      {.largest_file = 100'000});
  fs::copy_file(
      golden("llama") / "io.safetensors",
      folder / "llama_shards/io.safetensors");

  model::ModelDescription d = read_huggingface(golden("bert")).description;
  d.norm_place = model::NormPlace::before;
  write_huggingface(folder / "megatron_bert", d, random_weights(d));
  d.norm_place = model::NormPlace::after;
  d.masked_head = false;
  d.next_sentence_head = false;
  write_huggingface(folder / "bert_bare", d, random_weights(d));
  NamedTensors fine_tuned = random_weights(d);
  fine_tuned.emplace_back(
      "classification.weight",
      LazyTensor{at::kFloat, {3, d.hidden}, [n = d.hidden] {
                   return at::arange(3 * n, at::kFloat).view({3, n}).sin();
                 }});
  fine_tuned.emplace_back(
      "classification.bias",
      LazyTensor{at::kFloat, {3}, [] { return at::arange(3, at::kFloat); }});
  write_huggingface(folder / "bert_classifier", d, fine_tuned);
  EXPECT_EQ(
      read_huggingface(folder / "bert_classifier").tensors.back().first,
      "classification.bias");
  d.family = model::ModelFamily::roberta;
  d.masked_head = true;
  d.pooler = false;
  d.pad_token = 1;
  d.position_offset = 2;
  write_huggingface(folder / "roberta", d, random_weights(d));
  d = llama.description;
  d.attention_bias = true;
  d.mlp_bias = true;
  d.tied_head = true;
  d.rope_theta = 500000;
  d.rope_scaling = model::RopeScaling{"llama3", 8, 1, 4, 32};
  write_huggingface(folder / "llama_biases", d, random_weights(d));
  testing::run_python_tool(
      "check_models.py",
      {"huggingface", folder.path().string()});
}

TEST(RealPython, TorchLoadsOurMegatronFiles) {
  const testing::TemporaryFolder folder;
  const HuggingFaceModel gpt2 = read_huggingface(golden("gpt2"));
  write_megatron(
      folder.path(),
      gpt2.description,
      gpt2.tensors,
      {.split = {.tensor = 2, .pipeline = 2},
       .names = MegatronNames::legacy,
       .type = at::kHalf,
       .iteration = 10});
  fs::copy_file(
      golden("gpt2") / "model.safetensors",
      folder / "model.safetensors");
  testing::run_python_tool(
      "check_models.py",
      {"megatron", folder.path().string()});
}

TEST(RealPython, MegatronCoreLoadsOurFiles) {
  const testing::TemporaryFolder folder;
  for (const std::string name : {"gpt", "llama"}) {
    const fs::path truth =
        fs::path(CAIRN_GOLDEN_DIR) / "checkpoints_core" / name;
    const HuggingFaceModel model = read_huggingface(truth);
    const auto write = [&](const std::string& as, MegatronWriteOptions how) {
      how.vocabulary_multiple = 8;
      write_megatron(folder / as, model.description, model.tensors, how);
      fs::copy_file(
          truth / "logits.safetensors",
          folder / as / "io.safetensors");
    };
    write(name + "_local", {.names = MegatronNames::core_local});
    write(
        name + "_dist",
        {.format = MegatronFormat::torch_dist, .iteration = 10});
  }
  for (const std::string name : {"experts", "qwen", "bert", "t5"}) {
    const fs::path truth =
        fs::path(CAIRN_GOLDEN_DIR) / "checkpoints_core/families" / name;
    const MegatronCheckpoint model = read_megatron(truth / "torch");
    for (const auto format :
         {MegatronFormat::torch, MegatronFormat::torch_dist}) {
      const fs::path place =
          folder / (name + std::to_string(static_cast<int>(format)));
      write_megatron(
          place,
          model.description,
          model.tensors,
          {.format = format,
           .names = MegatronNames::core_local,
           .vocabulary_multiple = 8});
      fs::copy_file(truth / "io.safetensors", place / "io.safetensors");
    }
  }
  testing::run_python_tool(
      "check_megatron_core.py",
      {"core", folder.path().string()});
}

/// Its grouped experts, flat and without ranks.
TEST(RealPython, MegatronCoreLoadsOurGroupedExperts) {
  const testing::TemporaryFolder folder;
  const MegatronCheckpoint model = read_megatron(
      fs::path(CAIRN_GOLDEN_DIR) / "checkpoints_core/families/experts/torch");
  for (const auto& [name, format] :
       {std::pair{"torch", MegatronFormat::torch},
        {"torch_dist", MegatronFormat::torch_dist}}) {
    write_megatron(
        folder / name,
        model.description,
        model.tensors,
        {.format = format, .names = MegatronNames::core, .iteration = 5});
  }
  testing::run_python_tool(
      "check_megatron_core.py",
      {"grouped", folder.path().string()});
}

} // namespace
} // namespace cairn::checkpoints::model_python_test
