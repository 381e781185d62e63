// Optimizer states under the names and in the layouts of other programs:
// Megatron-DeepSpeed's files, universal checkpoints, folders of
// torch.distributed.checkpoint. They are held against the programs' own files.

#include "checkpoints/internal/portable_checkpoint.h"
#include "deepspeed_states.h"
#include "megatron_files.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/convert.h>
#include <cairn/checkpoints/deepspeed.h>
#include <cairn/checkpoints/torch_file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

namespace cairn::checkpoints::state_writing_test {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

fs::path core_path(const std::string& name) {
  return golden_path("checkpoints_core/" + name);
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

using Tensors = std::map<std::string, at::Tensor>;

NamedTensors tensors_in(const PythonValue& dict) {
  NamedTensors tensors;
  for (const auto& [name, value] : dict.entries()) {
    const at::Tensor tensor = value.tensor();
    tensors.emplace_back(
        name.text(),
        LazyTensor(tensor.scalar_type(), tensor.sizes().vec(), [tensor] {
          return tensor;
        }));
  }
  return tensors;
}

Tensors without(Tensors tensors, const std::string& name) {
  std::erase_if(tensors, [&](const auto& entry) {
    return entry.first == name || entry.first.ends_with("/" + name);
  });
  return tensors;
}

struct Case {
  std::string input;
  MegatronDeepSpeed kind = MegatronDeepSpeed::pipeline;
  MegatronSplit split{};
  int stage = 1;
  int ranks = 1;
  bool grouped = false;
  std::optional<at::ScalarType> type{};
};

std::ostream& operator<<(std::ostream& out, const Case& one) {
  return out << one.input;
}

class UnderDeepSpeed : public ::testing::TestWithParam<Case> {};

TEST_P(UnderDeepSpeed, HasTheProgramsOwnFiles) {
  const Case& one = GetParam();
  const testing::TemporaryFolder folder;
  ConvertOptions options{
      .input = core_path(one.input),
      .output = folder / "out",
      .to = CheckpointFormat::deepspeed,
      .type = one.type,
      .split = one.split,
      .vocabulary_multiple = 8,
      .zero_stage = one.stage,
      .zero_ranks = one.ranks,
      .megatron_deepspeed = one.kind,
      .megatron_deepspeed_grouped = one.grouped};
  options.megatron.keep_padding = true;
  const ConvertReport report = convert(options);
  EXPECT_TRUE(report.optimizer);
  EXPECT_THAT(report.left_out, IsEmpty());

  const fs::path ours = folder / "out/global_step5";
  const fs::path theirs = core_path(one.input) / "global_step5";
  EXPECT_EQ(names_in(ours), names_in(theirs));
  for (const std::string& name : names_in(theirs)) {
    SCOPED_TRACE(name);
    const PythonValue wanted = read_torch_file(theirs / name);
    const PythonValue got = read_torch_file(ours / name);
    if (name.starts_with("layer_")) {
      expect_same(loaded(tensors_in(got)), loaded(tensors_in(wanted)));
    } else if (name.ends_with("model_states.pt")) {
      for (const char* key :
           {"param_shapes",
            "global_steps",
            "mp_world_size",
            "dp_world_size",
            "checkpoint_parallel_dimensions",
            "iteration"}) {
        EXPECT_EQ(got.at(key).describe(9), wanted.at(key).describe(9)) << key;
      }
      EXPECT_EQ(
          got.at("lr_scheduler").at("num_steps").integer(),
          wanted.at("lr_scheduler").at("num_steps").integer());
    } else if (
        const auto slices =
            wanted.at("optimizer_state_dict").find("param_slice_mappings")) {
      EXPECT_EQ(
          got.at("optimizer_state_dict").at("param_slice_mappings").describe(9),
          slices->describe(9));
    }
  }
  const int model_ranks =
      static_cast<int>(one.split.tensor * one.split.pipeline);
  for (int rank = 0; rank < model_ranks; ++rank) {
    SCOPED_TRACE(rank);
    const DeepSpeedCheckpoint got(
        {.folder = folder / "out", .model_parallel_rank = rank});
    const DeepSpeedCheckpoint wanted(
        {.folder = core_path(one.input), .model_parallel_rank = rank});
    // The program does not train the copy that the last stage has.
    const std::string copy =
        rank > 0 ? "tied_modules.embed.position_embeddings.weight" : "none";
    expect_same(
        without(loaded(got.masters()), copy),
        without(loaded(wanted.masters()), copy));
    expect_same(
        without(loaded(got.optimizer_states()), copy),
        without(loaded(wanted.optimizer_states()), copy));
    for (std::size_t i = 0; i < wanted.groups().size(); ++i) {
      for (const char* key : {"wd_mult", "weight_decay", "lr"}) {
        EXPECT_EQ(
            got.groups().at(i).options.at(key).real(),
            wanted.groups().at(i).options.at(key).real())
            << key;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden,
    UnderDeepSpeed,
    ::testing::Values(
        Case{
            .input = "gpt_mds/zero1_pp2_dp2",
            .split = {.pipeline = 2},
            .ranks = 2,
            .type = at::kHalf},
        Case{
            .input = "llama_mds/zero1_tp2_pp2",
            .split = {.tensor = 2, .pipeline = 2},
            .grouped = true,
            .type = at::kBFloat16},
        Case{
            .input = "gpt_mds_zero/zero1",
            .kind = MegatronDeepSpeed::no_pipeline,
            .ranks = 2},
        Case{
            .input = "gpt_mds_zero/zero2",
            .kind = MegatronDeepSpeed::no_pipeline,
            .stage = 2,
            .ranks = 2}),
    [](const auto& info) {
      std::string name = info.param.input;
      std::ranges::replace(name, '/', '_');
      return name;
    });

/// All tensors of a universal checkpoint, by folder and file.
Tensors universal_tensors(const fs::path& zero) {
  Tensors result;
  for (const auto& folder : fs::directory_iterator(zero)) {
    if (!folder.is_directory()) {
      continue;
    }
    for (const auto& file : fs::directory_iterator(folder)) {
      const PythonValue content = read_torch_file(file.path());
      result
          [folder.path().filename().string() + "/" +
           file.path().stem().string()] =
              (content.is(PythonValue::Kind::dict) ? content.at("param")
                                                   : content)
                  .tensor();
    }
  }
  return result;
}

TEST(Universal, HasWhatDeepSpeedsConverterMakes) {
  const testing::TemporaryFolder folder;
  const ConvertReport report = convert(
      {.input = core_path("gpt_mds/zero1_pp2_dp2"),
       .output = folder / "out",
       .to = CheckpointFormat::deepspeed,
       .type = at::kHalf,
       .vocabulary_multiple = 8,
       .universal = true,
       .megatron_deepspeed = MegatronDeepSpeed::pipeline});
  EXPECT_THAT(
      report.left_out,
      Contains(HasSubstr("7 rows of the vocabulary's padding")));
  const fs::path ours = folder / "out/global_step5_universal/zero";
  const fs::path theirs =
      core_path("gpt_mds/universal/global_step5_universal/zero");
  expect_same(universal_tensors(ours), universal_tensors(theirs));
  const PythonValue words = read_torch_file(
      ours / "tied_modules.embed.word_embeddings.weight/fp32.pt");
  EXPECT_TRUE(words.at("vocab_tensor").boolean());
  const PythonValue shared = read_torch_file(ours / "optimizer_state.pt");
  EXPECT_EQ(shared.at("loss_scaler").find("cur_scale")->real(), 256);
  EXPECT_EQ(shared.at("param_groups").items().at(1).at("wd_mult").real(), 0);
}

Portable read_from(const fs::path& input, bool keep_padding = false) {
  ConvertOptions options{.input = input, .to = CheckpointFormat::native};
  options.megatron.keep_padding = keep_padding;
  return read_portable(detect_checkpoint_format(input), options);
}

/// Where a run loads it, DeepSpeed puts zeros in the place of the padding.
TEST(Universal, IsReadAsDeepSpeedLoadsIt) {
  const Portable portable = read_from(core_path("gpt_mds/universal"), true);
  EXPECT_EQ(portable.description->vocabulary, 56);
  const auto weights = loaded(portable.parameters);
  const at::Tensor& words = weights.at("embedding.word.weight");
  EXPECT_EQ(words.size(0), 56);
  EXPECT_TRUE(words.narrow(0, 49, 7).eq(0).all().item<bool>());
  EXPECT_FALSE(words.narrow(0, 48, 1).eq(0).all().item<bool>());
  const auto states = loaded(portable.optimizer_states);
  EXPECT_TRUE(states.at("exp_avg/embedding.word.weight")
                  .narrow(0, 49, 7)
                  .eq(0)
                  .all()
                  .item<bool>());
  EXPECT_EQ(
      read_from(core_path("gpt_mds/universal")).description->vocabulary,
      49);
}

/// A run of Megatron's with all rows of its vocabulary.
class UniversalOf : public ::testing::TestWithParam<std::string> {};

TEST_P(UniversalOf, IsReadAsItWas) {
  const fs::path input = core_path(GetParam());
  const Portable wanted = read_from(input, true);
  for (const auto kind :
       {MegatronDeepSpeed::pipeline, MegatronDeepSpeed::no_pipeline}) {
    for (const bool grouped : {false, true}) {
      for (const std::int64_t ranks : {1, 2}) {
        const testing::TemporaryFolder folder;
        ConvertOptions options{
            .input = input,
            .output = folder / "out",
            .to = CheckpointFormat::deepspeed,
            .split = {.tensor = ranks},
            .vocabulary_multiple = 8,
            .universal = true,
            .megatron_deepspeed = kind,
            .megatron_deepspeed_grouped = grouped};
        options.megatron.keep_padding = true;
        convert(options);
        const Portable got = read_from(folder / "out", true);
        EXPECT_EQ(got.steps, wanted.steps);
        EXPECT_EQ(got.samples, wanted.samples);
        EXPECT_EQ(got.schedule_samples, wanted.schedule_samples);
        EXPECT_EQ(to_json(*got.description), to_json(*wanted.description));
        expect_same(loaded(got.parameters), loaded(wanted.parameters));
        expect_same(
            loaded(got.optimizer_states),
            loaded(wanted.optimizer_states));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden,
    UniversalOf,
    ::testing::Values("gpt/torch_tp2", "llama/torch_tp2"),
    [](const auto& info) {
      std::string name = info.param;
      std::ranges::replace(name, '/', '_');
      return name;
    });

/// A model of any program keeps everything but the cut.
TEST(Universal, OfAnyModelIsReadAsItWas) {
  for (const char* name :
       {"deepspeed_z1_fp32_w2",
        "deepspeed_z2_fp16_w2",
        "deepspeed_z3_bf16_w2_groups"}) {
    SCOPED_TRACE(name);
    const testing::TemporaryFolder folder;
    const ConvertReport report = convert(
        {.input = golden(name),
         .output = folder / "universal",
         .to = CheckpointFormat::deepspeed,
         .universal = true});
    EXPECT_TRUE(report.optimizer);
    EXPECT_THAT(report.left_out, IsEmpty());
    const Portable wanted = read_from(golden(name));
    const Portable got = read_from(folder / "universal");
    EXPECT_THAT(got.left_out, IsEmpty());
    EXPECT_EQ(got.steps, 10);
    EXPECT_EQ(got.skipped_steps, wanted.skipped_steps);
    EXPECT_EQ(got.trained_in, wanted.trained_in);
    EXPECT_EQ(got.client.at("note").text(), "client");
    EXPECT_EQ(got.lr_scheduler.describe(), wanted.lr_scheduler.describe());
    expect_same(loaded(got.parameters), loaded(wanted.parameters));
    expect_same(loaded(got.buffers), loaded(wanted.buffers));
    expect_same(loaded(got.optimizer_states), loaded(wanted.optimizer_states));
    ASSERT_EQ(got.groups.size(), wanted.groups.size());
    for (std::size_t i = 0; i < wanted.groups.size(); ++i) {
      EXPECT_EQ(got.groups[i].names, wanted.groups[i].names);
      EXPECT_EQ(
          got.groups[i].options.at("weight_decay").real(),
          wanted.groups[i].options.at("weight_decay").real());
    }
  }
}

TEST(Universal, RefusesNamesThatAreNoFolders) {
  const testing::TemporaryFolder folder;
  write_torch_checkpoint(
      folder / "in.pt",
      {.weights = {{"../outside", numbers({2}, 1)}}});
  EXPECT_THAT(
      error_text<ConfigError>([&] {
        convert(
            {.input = folder / "in.pt",
             .output = folder / "out",
             .to = CheckpointFormat::deepspeed,
             .universal = true});
      }),
      HasSubstr("no name of a folder (../outside)"));
}

/// The same names and numbers as torch wrote; it loads them at any number of
/// ranks.
TEST(DcpFolder, OfALlamaIsTorchtitans) {
  const testing::TemporaryFolder folder;
  const fs::path theirs = core_path("llama_dcp/fsdp2");
  ConvertOptions options{
      .input = theirs,
      .output = folder / "native",
      .to = CheckpointFormat::native};
  options.megatron.args = PythonValue::object(
      "argparse",
      "Namespace",
      {{"num_attention_heads", PythonValue::integer(4)},
       {"max_position_embeddings", PythonValue::integer(14)},
       {"rotary_base", PythonValue::integer(10000)}});
  convert(options);
  const ConvertReport report = convert(
      {.input = folder / "native",
       .output = folder / "dcp",
       .to = CheckpointFormat::dcp});
  EXPECT_TRUE(report.optimizer);
  EXPECT_EQ(names_in(folder / "dcp"), std::set<std::string>{"step-5"});
  // Read under the names that they have.
  const Portable wanted = read_from(theirs);
  const Portable got = read_from(folder / "dcp");
  EXPECT_EQ(got.steps, 5);
  expect_same(loaded(got.parameters), loaded(wanted.parameters));
  EXPECT_FALSE(wanted.optimizer_states.empty());
  expect_same(loaded(got.optimizer_states), loaded(wanted.optimizer_states));
  ASSERT_EQ(got.groups.size(), 1);
  for (const char* key : {"lr", "weight_decay", "eps"}) {
    EXPECT_EQ(
        got.groups[0].options.at(key).real(),
        wanted.groups[0].options.at(key).real());
  }
  EXPECT_TRUE(got.groups[0].options.at("foreach").is_none());
}

TEST(DcpFolder, OfAnyModelKeepsItsNames) {
  const testing::TemporaryFolder folder;
  const fs::path input = golden("deepspeed_z1_bf16_w2_groups");
  convert(
      {.input = input, .output = folder / "dcp", .to = CheckpointFormat::dcp});
  const Portable wanted = read_from(input);
  const Portable got = read_from(folder / "dcp");
  expect_same(loaded(got.parameters), loaded(wanted.parameters));
  expect_same(loaded(got.optimizer_states), loaded(wanted.optimizer_states));
  EXPECT_EQ(got.groups.size(), wanted.groups.size());
}

/// The optimizer's name is not lost on the way through DeepSpeed's files:
/// its states look like AdamW's.
TEST(Optimizer, KeepsItsNameThroughDeepSpeed) {
  for (const bool universal : {false, true}) {
    const testing::TemporaryFolder folder;
    convert(
        {.input = golden("deepspeed_z1_fp32_w2"),
         .output = folder / "a",
         .to = CheckpointFormat::native,
         .optimizer = "adam"});
    convert(
        {.input = folder / "a",
         .output = folder / "b",
         .to = CheckpointFormat::deepspeed,
         .universal = universal});
    convert(
        {.input = folder / "b",
         .output = folder / "c",
         .to = CheckpointFormat::native});
    EXPECT_EQ(read_from(folder / "c").optimizer, "adam");
  }
}

/// The distributed optimizer's flat buffers, as Megatron saved them.
TEST(DistributedOptimizer, HasMegatronsOwnBuffers) {
  const testing::TemporaryFolder folder;
  ConvertOptions options{
      .input = core_path("gpt_bf16_distopt/torch_dp2"),
      .output = folder / "out",
      .to = CheckpointFormat::megatron,
      .type = at::kBFloat16,
      .megatron_distributed_optimizer = true,
      .vocabulary_multiple = 8};
  options.megatron.keep_padding = true;
  convert(options);
  const auto buffers = [](const fs::path& run) {
    const PythonValue file =
        read_torch_file(run / "iter_0000005/mp_rank_00/distrib_optim.pt");
    return file.entries().at(1).second.entries().front();
  };
  const auto [types, got] = buffers(folder / "out");
  const auto [their_types, wanted] = buffers(options.input);
  EXPECT_EQ(types.describe(), their_types.describe());
  EXPECT_EQ(
      got.at("numel_unpadded").integer(),
      wanted.at("numel_unpadded").integer());
  for (const char* kind : {"param", "exp_avg", "exp_avg_sq"}) {
    EXPECT_TRUE(got.at(kind).tensor().equal(wanted.at(kind).tensor())) << kind;
  }
}

} // namespace
} // namespace cairn::checkpoints::state_writing_test
