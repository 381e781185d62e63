// Files of Megatron-Core that Cairn writes, and damaged ones.

#include "megatron_files.h"
#include "support/error_text.h"
#include "support/fuzz.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/convert.h>
#include <cairn/checkpoints/huggingface.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/checkpoints/torch_file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace cairn::checkpoints::core_writing_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

model::ModelDescription gated_llama() {
  model::ModelDescription d =
      read_huggingface(golden_path("checkpoints_core/llama")).description;
  d.layers = 4;
  return d;
}

TEST(CoreNames, GoThroughTheirFiles) {
  const testing::TemporaryFolder folder;
  for (const auto names : {MegatronNames::core, MegatronNames::core_local}) {
    for (const auto& d : {small_gpt(), gated_llama()}) {
      const fs::path place = folder / std::to_string(static_cast<int>(names)) /
          std::string(model::name_of(d.family));
      write_megatron(
          place,
          d,
          numbered(d),
          {.split = {.tensor = 2, .pipeline = 2},
           .names = names,
           .iteration = 7});
      const MegatronCheckpoint read = read_megatron(place);
      EXPECT_EQ(read.names, names);
      EXPECT_EQ(read.split, (MegatronSplit{.tensor = 2, .pipeline = 2}));
      expect_same(loaded(read.tensors), loaded(numbered(d)));
    }
  }
}

TEST(CoreNames, WhatEachRankHas) {
  const testing::TemporaryFolder folder;
  write_megatron(
      folder.path(),
      small_gpt(),
      numbered(small_gpt()),
      {.split = {.pipeline = 2}, .iteration = 7});
  const PythonValue model =
      read_torch_file(rank_file(folder / "iter_0000007", "mp_rank_00_001"))
          .at("model");
  // Layers are numbered within their stage. The norms are parts of the linear
  // layers, whose states for FP8 are empty; the tied head has a copy.
  const at::Tensor norm =
      model.at("decoder.layers.1.mlp.linear_fc1.layer_norm_bias").tensor();
  EXPECT_TRUE(norm.equal(
      loaded(numbered(small_gpt())).at("layers.3.post_attention_norm.bias")));
  EXPECT_TRUE(
      model.at("decoder.layers.1.self_attention.linear_qkv._extra_state")
          .is_none());
  EXPECT_TRUE(model.at("output_layer._extra_state").is_none());
  EXPECT_EQ(
      model.at("output_layer.weight").stored().sizes,
      (std::vector<std::int64_t>{128, 16}));
  EXPECT_FALSE(model.find("embedding.word_embeddings.weight"));
}

TEST(CoreNames, AreThoseOfABertAndAT5) {
  const testing::TemporaryFolder folder;
  int number = 0;
  for (const std::string name : {"bert", "t5"}) {
    const MegatronCheckpoint given = read_megatron(
        golden_path("checkpoints_core/families/" + name + "/torch"));
    for (const auto names : {MegatronNames::core, MegatronNames::core_local}) {
      for (const auto format :
           {MegatronFormat::torch, MegatronFormat::torch_dist}) {
        const fs::path place = folder / std::to_string(number++);
        write_megatron(
            place,
            given.description,
            given.tensors,
            {.split = {.tensor = 2, .pipeline = name == "bert" ? 2 : 1},
             .format = format,
             .names = names,
             .iteration = 7});
        const MegatronCheckpoint read = read_megatron(place);
        EXPECT_NE(read.names, MegatronNames::legacy);
        EXPECT_EQ(read.description.family, given.description.family);
        expect_same(loaded(read.tensors), loaded(given.tensors));
      }
    }
  }
}

TEST(CoreNames, AreNotThoseOfOtherModels) {
  const testing::TemporaryFolder folder;
  model::ModelDescription bert = small_gpt();
  bert.family = model::ModelFamily::bert;
  bert.masked_head = true;
  model::ModelDescription t5 = small_gpt();
  t5.family = model::ModelFamily::t5;
  t5.decoder_layers = 4;
  t5.head_bias = true;
  EXPECT_THAT(
      error_text<ConfigError>([&] {
        write_megatron(
            folder / "t5",
            t5,
            numbered(t5),
            {.split = {.pipeline = 2}, .names = MegatronNames::core});
      }),
      HasSubstr("Megatron-Core trains a T5 in one pipeline stage alone (2 "
                "stages)"));
  EXPECT_THAT(
      error_text<ConfigError>([&] {
        write_megatron(
            folder / "dist",
            bert,
            numbered(bert),
            {.format = MegatronFormat::torch_dist});
      }),
      HasSubstr("Megatron's format torch_dist has the names of Megatron-Core"));
}

TEST(CoreNames, StayWhenRanksAreMerged) {
  const testing::TemporaryFolder folder;
  convert(
      {.input = golden_path("checkpoints_core/gpt/torch_pp2"),
       .output = folder / "one",
       .to = CheckpointFormat::megatron});
  EXPECT_EQ(read_megatron(folder / "one").names, MegatronNames::core_local);
  convert(
      {.input = golden_path("models/gpt2"),
       .output = folder / "new",
       .to = CheckpointFormat::megatron});
  EXPECT_EQ(read_megatron(folder / "new").names, MegatronNames::core);
}

TEST(TorchDist, GoesThroughItsFiles) {
  const testing::TemporaryFolder folder;
  for (const auto& d : {small_gpt(), gated_llama()}) {
    const fs::path place = folder / std::string(model::name_of(d.family));
    write_megatron(
        place,
        d,
        numbered(d),
        {.format = MegatronFormat::torch_dist, .iteration = 3});
    EXPECT_TRUE(fs::exists(place / "iter_0000003/.metadata"));
    EXPECT_EQ(detect_checkpoint_format(place), CheckpointFormat::megatron);
    const MegatronCheckpoint read = read_megatron(place);
    EXPECT_EQ(read.iteration, 3);
    EXPECT_FALSE(read.has_optimizer);
    expect_same(loaded(read.tensors), loaded(numbered(d)));
  }
}

/// A small checkpoint in which a file can be damaged.
class Damaged {
 public:
  Damaged() {
    model::ModelDescription d = small_gpt();
    d.layers = 1;
    write_megatron(
        folder_.path(),
        d,
        numbered(d),
        {.format = MegatronFormat::torch_dist, .vocabulary_multiple = 4});
  }
  fs::path file(const std::string& name) const {
    return folder_ / "release" / name;
  }
  void read() const {
    for (const auto& [name, tensor] : read_megatron(folder_.path()).tensors) {
      tensor.load();
    }
  }
  std::string error() const {
    return error_text<CheckpointError>([&] { read(); });
  }

 private:
  testing::TemporaryFolder folder_;
};

TEST(TorchDist, NamesWhatIsMissing) {
  const Damaged saved;
  fs::resize_file(
      saved.file("__0_0.distcp"),
      fs::file_size(saved.file("__0_0.distcp")) - 1);
  EXPECT_THAT(saved.error(), HasSubstr("__0_0.distcp: the file is too short"));
  fs::remove(saved.file("common.pt"));
  EXPECT_THAT(saved.error(), HasSubstr("the file is too short"));

  const Damaged other;
  fs::remove(other.file("common.pt"));
  fs::remove(other.file("metadata.json"));
  EXPECT_THAT(other.error(), HasSubstr("no checkpoint of Megatron's"));
}

TEST(TorchDist, ChunksThatDoNotTileATensorAreRefused) {
  const Damaged saved;
  const fs::path file = saved.file(".metadata");
  std::string bytes = read_file(file, 1 << 20);
  // The number of positions, in the size of the tensor alone.
  const auto name = bytes.find("embedding.position_embeddings.weight");
  const auto size = bytes.find("K\x20K\x10", name);
  ASSERT_NE(size, std::string::npos);
  bytes[size + 1] = '\x21';
  write_file_atomically(file, bytes);
  EXPECT_THAT(
      saved.error(),
      HasSubstr("embedding.position_embeddings.weight: the chunks leave gaps "
                "or overlap"));
}

void fuzz_file(const std::string& name, std::vector<std::string> pieces) {
  const Damaged saved;
  const fs::path file = saved.file(name);
  testing::fuzz(
      {.seeds = {read_file(file, 1 << 20)},
       .pieces = std::move(pieces),
       .runs = 300},
      [&](const std::string& bytes) {
        write_file_atomically(file, bytes);
        saved.read();
      });
}

TEST(TorchDist, FuzzMetadata) {
  fuzz_file(
      ".metadata",
      {"K\x02",
       "K\xff",
       "(",
       "t",
       "N",
       "\x85",
       "}",
       "]",
       "../x",
       "J\xff\xff\xff\xff"});
}

TEST(TorchDist, FuzzPieces) {
  fuzz_file("__0_0.distcp", {"K\x02", "PK\x03\x04", "(", "t", "N", "}"});
}

TEST(Titan, TellsWhatItsFilesDoNot) {
  const testing::TemporaryFolder folder;
  EXPECT_THAT(
      error_text<ConfigError>([&] {
        convert(
            {.input = golden_path("checkpoints_core/llama_dcp/fsdp2"),
             .output = folder / "hf",
             .to = CheckpointFormat::huggingface});
      }),
      HasSubstr("--num-attention-heads, --max-position-embeddings, "
                "--rotary-base"));
  // Any names go into files of torch.save.
  const ConvertReport report = convert(
      {.input = golden_path("checkpoints_core/llama_dcp/fsdp2"),
       .output = folder / "llama.pt",
       .to = CheckpointFormat::torch});
  EXPECT_EQ(report.tensors, 4 * 12u); // each with Adam's step and moments
  const PythonValue file = read_torch_file(folder / "llama.pt");
  EXPECT_TRUE(file.at("model").find("layers.0.attention.qkv_linear.wq.weight"));
  EXPECT_TRUE(file.find("optimizer"));
}

TEST(MegatronDeepSpeed, TheOrderOfHeadsCanBeTold) {
  const fs::path folder = golden_path("checkpoints_core/gpt_mds/zero1_pp2_dp2");
  const auto weight = [&](MegatronHeads heads) {
    return loaded(read_megatron(folder, {.heads = heads}).tensors)
        .at("layers.0.attention.query_key_value.weight");
  };
  const at::Tensor by_args = weight(MegatronHeads::by_version);
  EXPECT_TRUE(by_args.equal(weight(MegatronHeads::queries_keys_values)));
  EXPECT_FALSE(by_args.equal(weight(MegatronHeads::grouped)));
}

} // namespace
} // namespace cairn::checkpoints::core_writing_test
