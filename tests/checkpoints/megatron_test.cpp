#include "checkpoints/megatron_files.h"
#include "checkpoints/tensors/named_tensors.h"
#include "support/error_text.h"
#include "support/fuzz.h"
#include "support/golden_tensors.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/huggingface.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/checkpoints/torch_file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <tuple>

namespace cairn::checkpoints::megatron_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Tensors = std::map<std::string, at::Tensor>;

Tensors model_of(const fs::path& file) {
  return loaded(named_tensors(read_torch_file(file).at("model")));
}

/// A GPT of four layers with the features that Megatron and Llama share.
model::ModelDescription small_llama() {
  return {
      .family = model::ModelFamily::llama,
      .layers = 4,
      .hidden = 16,
      .heads = 8,
      .key_value_heads = 4,
      .head_size = 4,
      .ffn = 24,
      .vocabulary = 100,
      .padded_vocabulary = 128,
      .positions = 32,
      .position = model::PositionKind::rotary,
      .norm = model::NormKind::rms_norm,
      .activation = model::ActivationKind::silu,
      .gated = true,
      .attention_bias = false,
      .mlp_bias = false,
      .tied_head = false};
}

model::ModelDescription small_bert() {
  model::ModelDescription d = small_gpt();
  d.family = model::ModelFamily::bert;
  d.token_types = 2;
  d.pooler = true;
  d.masked_head = true;
  d.next_sentence_head = true;
  return d;
}

model::ModelDescription small_t5() {
  model::ModelDescription d = small_gpt();
  d.family = model::ModelFamily::t5;
  d.layers = 2;
  d.decoder_layers = 4;
  d.head_bias = true;
  return d;
}

class MegatronGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(MegatronGolden, IsGpt2) {
  const MegatronCheckpoint checkpoint =
      read_megatron(golden_path(std::string("checkpoints/") + GetParam()));
  const bool half = checkpoint.tensors.front().second.type == at::kHalf;
  Tensors wanted = golden_gpt2();
  for (auto& [name, tensor] : wanted) {
    tensor = half ? tensor.to(at::kHalf) : tensor;
  }
  expect_same(loaded(checkpoint.tensors), wanted);
  EXPECT_EQ(checkpoint.version, 3);
  EXPECT_EQ(
      checkpoint.description.activation,
      model::ActivationKind::gelu_tanh);
  EXPECT_EQ(checkpoint.description.ffn, 256);
  if (half) {
    EXPECT_EQ(checkpoint.iteration, std::nullopt);
    return;
  }
  EXPECT_EQ(checkpoint.iteration, 10);
  // Converts to Hugging Face's folder, from which they were made.
  const testing::TemporaryFolder folder;
  write_huggingface(folder / "hf", checkpoint.description, checkpoint.tensors);
  expect_same(
      testing::golden_tensors(folder / "hf/model.safetensors"),
      testing::golden_tensors(golden_path("models/gpt2/model.safetensors")));
}

INSTANTIATE_TEST_SUITE_P(
    All,
    MegatronGolden,
    ::testing::Values("megatron_tp1", "megatron_tp2", "megatron_release_fp16"));

TEST(Megatron, SplitsAndMergesAsItsOwnToolDoes) {
  const testing::TemporaryFolder folder;
  for (const auto& [from, to, ranks] :
       {std::tuple{"megatron_tp1", "megatron_tp2", 2},
        std::tuple{"megatron_tp2", "megatron_tp1", 1}}) {
    const MegatronCheckpoint checkpoint =
        read_megatron(golden_path(std::string("checkpoints/") + from));
    write_megatron(
        folder / to,
        checkpoint.description,
        checkpoint.tensors,
        {.split = {.tensor = ranks},
         .names = checkpoint.names,
         .iteration = checkpoint.iteration,
         .args = checkpoint.args,
         .others = checkpoint.others});
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string name = "mp_rank_0" + std::to_string(rank);
      const fs::path wanted =
          golden_path(std::string("checkpoints/") + to) / "iter_0000010";
      const fs::path written = folder / to / "iter_0000010";
      expect_same(
          model_of(rank_file(written, name)),
          model_of(rank_file(wanted, name)));
      const PythonValue file = read_torch_file(rank_file(written, name));
      EXPECT_EQ(file.at("args").type_name(), "argparse.Namespace");
      EXPECT_EQ(
          file.at("args").at("tensor_model_parallel_size").integer(),
          ranks);
      EXPECT_EQ(file.at("args").at("lr").real(), 0.001); // kept
      EXPECT_EQ(file.at("iteration").integer(), 10);
      EXPECT_EQ(file.at("rng_state").items().size(), 1U);
      EXPECT_EQ(file.at("opt_param_scheduler").at("num_steps").integer(), 40);
    }
    EXPECT_EQ(
        read_file(folder / to / "latest_checkpointed_iteration.txt", 100),
        "10");
  }
}

class MegatronSplits
    : public ::testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(MegatronSplits, ReadBackAsWritten) {
  const auto& [model, tensor, pipeline] = GetParam();
  const model::ModelDescription d = model == 0 ? small_gpt()
      : model == 1                             ? small_llama()
      : model == 2                             ? small_bert()
                                               : small_t5();
  const testing::TemporaryFolder folder;
  write_megatron(
      folder.path(),
      d,
      numbered(d),
      {.split = {.tensor = tensor, .pipeline = pipeline},
       .vocabulary_multiple = 32});
  const MegatronCheckpoint checkpoint = read_megatron(folder.path());
  EXPECT_EQ(to_json(checkpoint.description), to_json(d));
  EXPECT_EQ(checkpoint.split.tensor, tensor);
  EXPECT_EQ(checkpoint.split.pipeline, pipeline);
  EXPECT_EQ(checkpoint.iteration, std::nullopt);
  expect_same(loaded(checkpoint.tensors), loaded(numbered(d)));
}

INSTANTIATE_TEST_SUITE_P(
    Models,
    MegatronSplits,
    ::testing::Combine(
        ::testing::Values(0, 1, 2, 3),
        ::testing::Values(1, 2, 4),
        ::testing::Values(1, 2, 4)));

TEST(Megatron, RanksThatShareAHeadHaveEqualPartsOfIt) {
  model::ModelDescription d = small_llama();
  d.key_value_heads = 2;
  const Tensors whole = loaded(numbered(d));
  const testing::TemporaryFolder folder;
  for (const int ranks : {4, 8}) {
    const fs::path to = folder / std::to_string(ranks);
    write_megatron(
        to,
        d,
        numbered(d),
        {.split = {.tensor = ranks}, .vocabulary_multiple = 16});
    const MegatronCheckpoint checkpoint = read_megatron(to);
    EXPECT_EQ(checkpoint.split.tensor, ranks);
    EXPECT_EQ(checkpoint.description.key_value_heads, 2);
    expect_same(loaded(checkpoint.tensors), whole);
  }
}

TEST(Megatron, WhatEachRankHas) {
  const testing::TemporaryFolder folder;
  const Tensors gpt = loaded(numbered(small_gpt()));
  write_megatron(
      folder / "gpt",
      small_gpt(),
      numbered(small_gpt()),
      {.split = {.tensor = 2, .pipeline = 2},
       .names = MegatronNames::legacy,
       .iteration = 7});
  const Tensors last =
      model_of(rank_file(folder / "gpt/iter_0000007", "mp_rank_01_001"));
  const std::string layer = "language_model.encoder.layers.1.";
  EXPECT_TRUE(last.at(layer + "mlp.dense_h_to_4h.weight")
                  .equal(gpt.at("layers.3.mlp.up.weight").narrow(0, 32, 32)));
  EXPECT_TRUE(last.at(layer + "mlp.dense_4h_to_h.weight")
                  .equal(gpt.at("layers.3.mlp.down.weight").narrow(1, 32, 32)));
  EXPECT_TRUE(last.contains("language_model.encoder.final_layernorm.bias"));
  EXPECT_FALSE(
      last.contains("language_model.embedding.word_embeddings.weight"));
  // 100 words padded to 256: the second rank has the last one, 128 times.
  const at::Tensor head = last.at("word_embeddings_for_head.weight");
  EXPECT_TRUE(head.equal(
      gpt.at("embedding.word.weight").narrow(0, 99, 1).expand({128, 16})));

  const Tensors llama = loaded(numbered(small_llama()));
  write_megatron(
      folder / "llama",
      small_llama(),
      numbered(small_llama()),
      {.split = {.tensor = 2}, .names = MegatronNames::legacy});
  const Tensors rank =
      model_of(rank_file(folder / "llama/release", "mp_rank_01"));
  EXPECT_TRUE(
      rank.at("language_model.encoder.layers.0.mlp.dense_h_to_4h.weight")
          .equal(at::cat(
              {llama.at("layers.0.mlp.gate.weight").narrow(0, 12, 12),
               llama.at("layers.0.mlp.up.weight").narrow(0, 12, 12)})));
  EXPECT_TRUE(rank.contains("language_model.output_layer.weight"));

  write_megatron(
      folder / "t5",
      small_t5(),
      numbered(small_t5()),
      {.split = {.pipeline = 3, .encoder_stages = 1}});
  const auto stage = [&](const char* name) {
    return model_of(rank_file(folder / "t5/release", name));
  };
  const std::string words = "language_model.embedding.word_embeddings.weight";
  EXPECT_TRUE(stage("mp_rank_00_000")
                  .contains("language_model.encoder.final_layernorm.weight"));
  EXPECT_TRUE(stage("mp_rank_00_001").contains(words));
  EXPECT_FALSE(stage("mp_rank_00_002").contains(words));
  EXPECT_TRUE(
      stage("mp_rank_00_002").contains("word_embeddings_for_head.weight"));
  EXPECT_EQ(read_megatron(folder / "t5").split.encoder_stages, 1);
}

TEST(Megatron, RefusesWhatCannotBeCut) {
  const testing::TemporaryFolder folder;
  const auto error = [&](const model::ModelDescription& d,
                         MegatronSplit split) {
    return error_text([&] {
      write_megatron(folder / "x", d, numbered(d), {.split = split});
    });
  };
  EXPECT_THAT(
      error(small_gpt(), {.tensor = 3}),
      HasSubstr("the heads cannot be cut over the tensor parallel ranks (4 "
                "over 3)"));
  EXPECT_THAT(
      error(
          [] {
            model::ModelDescription d = small_llama();
            d.heads = 24;
            d.key_value_heads = 6;
            return d;
          }(),
          {.tensor = 4}),
      HasSubstr("the key/value heads cannot be cut"));
  EXPECT_THAT(
      error(
          [] {
            model::ModelDescription d = small_llama();
            d.heads = 9;
            d.key_value_heads = 3;
            return d;
          }(),
          {.tensor = 9}),
      HasSubstr("the rows of a key and a value cannot be cut over the ranks "
                "that share them (8 over 3)"));
  EXPECT_THAT(
      error(small_gpt(), {.pipeline = 3}),
      HasSubstr("the layers cannot be cut over the pipeline stages (4 over "
                "3)"));
  EXPECT_THAT(
      error(small_t5(), {.pipeline = 5, .encoder_stages = 2}),
      HasSubstr("the decoder's layers cannot be cut"));
  EXPECT_THAT(error(small_gpt(), {.tensor = 0}), HasSubstr("(4 over 0)"));
  EXPECT_THAT(
      error(read_huggingface(golden_path("models/bert")).description, {}),
      HasSubstr("Megatron has no model with norms after attention and MLP"));
  EXPECT_THAT(
      error(read_huggingface(golden_path("models/t5_relu")).description, {}),
      HasSubstr("Megatron has no model with relative positions"));
  EXPECT_FALSE(fs::exists(folder / "x"));

  write_megatron(folder / "x", small_gpt(), numbered(small_gpt()));
  EXPECT_THAT(
      error(small_gpt(), {}),
      HasSubstr("the folder holds a checkpoint already"));
  folder.write("file", "x");
  EXPECT_THAT(
      error_text<DataError>([&] {
        write_megatron(folder / "file", small_gpt(), numbered(small_gpt()));
      }),
      HasSubstr("the folder cannot be made"));
}

TEST(Megatron, Fuzz) {
  const testing::TemporaryFolder folder;
  model::ModelDescription d = small_gpt();
  d.layers = 1;
  write_megatron(folder.path(), d, numbered(d), {.vocabulary_multiple = 4});
  const fs::path file = rank_file(folder / "release", "mp_rank_00");
  testing::fuzz(
      {.seeds = {read_file(file, 1 << 20)},
       .pieces = {"K\x02", "K\xff", "(", "t", "N", "\x85", "}", "]"},
       .runs = 300},
      [&](const std::string& bytes) {
        write_file_atomically(file, bytes);
        for (const auto& [name, tensor] :
             read_megatron(folder.path()).tensors) {
          tensor.load();
        }
      });
}

TEST(Megatron, LlamaGoesThroughItsFiles) {
  const testing::TemporaryFolder folder;
  const HuggingFaceModel model = read_huggingface(golden_path("models/llama"));
  write_megatron(
      folder / "megatron",
      model.description,
      model.tensors,
      {.split = {.tensor = 2, .pipeline = 2}, .type = at::kDouble});
  const MegatronCheckpoint checkpoint = read_megatron(folder / "megatron");
  write_huggingface(
      folder / "hf",
      checkpoint.description,
      checkpoint.tensors,
      {.type = at::kFloat});
  expect_same(
      testing::golden_tensors(folder / "hf/model.safetensors"),
      testing::golden_tensors(golden_path("models/llama/model.safetensors")));
}

TEST(Megatron, ItsBertIsTransformersMegatronBert) {
  const testing::TemporaryFolder folder;
  const model::ModelDescription d = small_bert();
  write_huggingface(folder / "hf", d, numbered(d));
  EXPECT_THAT(
      read_file(folder / "hf/config.json", 10'000),
      HasSubstr("\"model_type\": \"megatron-bert\""));
  const HuggingFaceModel again = read_huggingface(folder / "hf");
  expect_same(loaded(again.tensors), loaded(numbered(d)));
}

} // namespace
} // namespace cairn::checkpoints::megatron_test
