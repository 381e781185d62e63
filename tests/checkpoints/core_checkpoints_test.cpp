// Checkpoints of today's Megatron-Core, torch.distributed.checkpoint and
// Megatron-DeepSpeed, written by these programs.

#include "checkpoints/internal/portable_checkpoint.h"
#include "megatron_files.h"
#include "support/error_text.h"
#include "support/fuzz.h"
#include "support/golden_tensors.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/convert.h>
#include <cairn/checkpoints/huggingface.h>
#include <cairn/checkpoints/megatron.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace cairn::checkpoints::core_checkpoints_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

fs::path core_path(const std::string& name) {
  return golden_path("checkpoints_core/" + name);
}

struct Layout {
  const char* model;
  const char* folder;
  CheckpointFormat format = CheckpointFormat::megatron;
};

std::ostream& operator<<(std::ostream& out, const Layout& layout) {
  return out << layout.model << '_' << layout.folder;
}

const std::vector<Layout> layouts{
    {"gpt", "torch_tp2"},
    {"gpt", "torch_pp2"},
    {"gpt", "dist_tp2"},
    {"llama", "torch_tp2"},
    {"llama", "dist_tp2_pp2"},
    {"llama", "torch_te_names_tp1"},
    {"llama_vpp", "torch_pp2_vpp2"},
    {"llama_bf16", "torch_tp1"},
    {"llama_bf16", "dist_tp1"},
    {"gpt_bf16_distopt", "torch_dp2"},
    {"gpt_bf16_distopt", "dist_dp2"},
    {"gpt_bf16_distopt", "dist_dp2_full"},
    {"gpt_old_core", "dist_tp2_dp2"},
    {"llama_dcp", "fsdp2", CheckpointFormat::dcp},
    {"gpt_mds", "zero1_pp2_dp2", CheckpointFormat::deepspeed},
    {"gpt_mds", "universal", CheckpointFormat::deepspeed},
    {"llama_mds", "zero1_tp2_pp2", CheckpointFormat::deepspeed}};

/// Facts about a Llama of torchtitan's that its files do not hold.
PythonValue titan_args() {
  return PythonValue::object(
      "argparse",
      "Namespace",
      {{"num_attention_heads", PythonValue::integer(4)},
       {"max_position_embeddings", PythonValue::integer(14)},
       {"rotary_base", PythonValue::integer(10000)}});
}

ConvertOptions options_of(const fs::path& input) {
  ConvertOptions options{.input = input};
  if (input.filename() == "fsdp2") {
    options.megatron.args = titan_args();
  }
  return options;
}

/// The tensors in the type that they were trained in.
std::map<std::string, at::Tensor> rounded(
    std::map<std::string, at::Tensor> tensors,
    const std::map<std::string, at::Tensor>& like) {
  for (auto& [name, tensor] : tensors) {
    const auto found = like.find(name);
    if (found != like.end()) {
      tensor = tensor.to(found->second.scalar_type());
    }
  }
  return tensors;
}

class CoreLayouts : public ::testing::TestWithParam<Layout> {};

TEST_P(CoreLayouts, HoldTheWeightsOfTheLiveModel) {
  const testing::TemporaryFolder folder;
  const Layout& layout = GetParam();
  const fs::path input =
      core_path(std::string(layout.model) + "/" + layout.folder);
  ConvertOptions options = options_of(input);
  options.output = folder / "hf";
  options.to = CheckpointFormat::huggingface;
  EXPECT_EQ(convert(options).from, layout.format);
  const auto got = testing::golden_tensors(folder / "hf/model.safetensors");
  const auto truth =
      testing::golden_tensors(core_path(layout.model) / "model.safetensors");
  expect_same(got, rounded(truth, got));
  const model::ModelDescription wanted =
      read_huggingface(core_path(layout.model)).description;
  const model::ModelDescription read =
      read_huggingface(folder / "hf").description;
  EXPECT_EQ(read.layers, wanted.layers);
  EXPECT_EQ(read.heads, wanted.heads);
  EXPECT_EQ(read.key_value_heads, wanted.key_value_heads);
  EXPECT_EQ(read.vocabulary, wanted.vocabulary);
  EXPECT_EQ(read.activation, wanted.activation);
  EXPECT_EQ(read.norm_epsilon, wanted.norm_epsilon);
  EXPECT_EQ(read.rope_theta, wanted.rope_theta);
}

/// One kind of the states under Hugging Face's names.
std::map<std::string, at::Tensor> states_of(
    const Portable& portable,
    const std::string& kind) {
  const testing::TemporaryFolder folder;
  NamedTensors tensors;
  for (const auto& [name, tensor] : portable.optimizer_states) {
    if (name.starts_with(kind + "/")) {
      tensors.emplace_back(name.substr(kind.size() + 1), tensor);
    }
  }
  write_huggingface(folder / kind, *portable.description, tensors);
  std::map<std::string, at::Tensor> result;
  for (auto& [name, tensor] :
       testing::golden_tensors(folder / kind / "model.safetensors")) {
    result.emplace(kind + "." + name, tensor);
  }
  return result;
}

TEST_P(CoreLayouts, HoldTheOptimizerOfTheLiveModel) {
  const Layout& layout = GetParam();
  const fs::path truth = core_path(layout.model);
  if (!fs::exists(truth / "adam.safetensors") ||
      std::string(layout.folder) == "torch_te_names_tp1") {
    return; // weights alone were saved
  }
  const Portable portable =
      read_portable(layout.format, options_of(truth / layout.folder));
  EXPECT_EQ(portable.left_out, std::vector<std::string>());
  std::map<std::string, at::Tensor> got = states_of(portable, "exp_avg");
  got.merge(states_of(portable, "exp_avg_sq"));
  expect_same(got, testing::golden_tensors(truth / "adam.safetensors"));
  std::size_t named = 0;
  for (const StoredGroup& group : portable.groups) {
    named += group.names.size();
    const bool vectors = group.names.back().find("norm") != std::string::npos;
    EXPECT_EQ(
        group.options.at("weight_decay").real() == 0,
        vectors && portable.groups.size() == 2)
        << group.names.back();
  }
  EXPECT_EQ(named, portable.parameters.size());
  for (const auto& [name, tensor] : portable.optimizer_states) {
    if (name.starts_with("step/")) {
      EXPECT_EQ(tensor.load().item<float>(), 5) << name;
    }
  }
  // The fp32 copies are there, not the rounded parameters.
  const testing::TemporaryFolder folder;
  write_huggingface(folder / "hf", *portable.description, portable.parameters);
  expect_same(
      testing::golden_tensors(folder / "hf/model.safetensors"),
      testing::golden_tensors(truth / "model.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(
    Golden,
    CoreLayouts,
    ::testing::ValuesIn(layouts),
    ::testing::PrintToStringParamName());

} // namespace
} // namespace cairn::checkpoints::core_checkpoints_test
