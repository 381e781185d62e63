#include "same_tensors.h"
#include "support/error_text.h"
#include "support/fuzz.h"
#include "support/golden_tensors.h"
#include "support/temporary_folder.h"

#include <cairn/base/atomic_file.h>
#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoint/huggingface.h>
#include <cairn/checkpoint/megatron.h>
#include <cairn/checkpoint/named_tensors.h>
#include <cairn/checkpoint/torch_file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <tuple>

namespace cairn::checkpoints::megatron_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Kind = PythonValue::Kind;
using Tensors = std::map<std::string, at::Tensor>;

fs::path golden(const std::string& name) {
  return fs::path(CAIRN_GOLDEN_DIR) / name;
}

fs::path rank_file(const fs::path& folder, const std::string& rank) {
  return folder / rank / "model_optim_rng.pt";
}

const Tensors& golden_gpt2() {
  static const Tensors tensors =
      loaded(read_huggingface(golden("models/gpt2")).tensors);
  return tensors;
}

Tensors model_of(const fs::path& file) {
  return loaded(named_tensors(read_torch_file(file).at("model")));
}

/// GPT as Megatron and Llama have it in common, of four layers.
ModelDescription small_llama() {
  return {
      .family = ModelFamily::llama,
      .layers = 4,
      .hidden = 16,
      .heads = 8,
      .key_value_heads = 4,
      .head_size = 4,
      .ffn = 24,
      .vocabulary = 100,
      .padded_vocabulary = 128,
      .positions = 32,
      .position = PositionKind::rotary,
      .norm = NormKind::rms_norm,
      .activation = ActivationKind::silu,
      .gated = true,
      .attention_bias = false,
      .mlp_bias = false,
      .tied_head = false};
}

ModelDescription small_gpt() {
  return {
      .layers = 4,
      .hidden = 16,
      .heads = 4,
      .key_value_heads = 4,
      .head_size = 4,
      .ffn = 64,
      .vocabulary = 100,
      .padded_vocabulary = 128,
      .positions = 32,
      .activation = ActivationKind::gelu_tanh};
}

ModelDescription small_bert() {
  ModelDescription d = small_gpt();
  d.family = ModelFamily::bert;
  d.token_types = 2;
  d.pooler = true;
  d.masked_head = true;
  d.next_sentence_head = true;
  return d;
}

ModelDescription small_t5() {
  ModelDescription d = small_gpt();
  d.family = ModelFamily::t5;
  d.layers = 2;
  d.decoder_layers = 4;
  d.head_bias = true;
  return d;
}

class MegatronGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(MegatronGolden, IsGpt2) {
  const MegatronCheckpoint checkpoint =
      read_megatron(golden(std::string("checkpoints/") + GetParam()));
  const bool half = checkpoint.tensors.front().second.type == at::kHalf;
  Tensors wanted = golden_gpt2();
  for (auto& [name, tensor] : wanted) {
    tensor = half ? tensor.to(at::kHalf) : tensor;
  }
  expect_same(loaded(checkpoint.tensors), wanted);
  EXPECT_EQ(checkpoint.version, 3);
  EXPECT_EQ(checkpoint.description.activation, ActivationKind::gelu_tanh);
  EXPECT_EQ(checkpoint.description.ffn, 256);
  if (half) {
    EXPECT_EQ(checkpoint.iteration, std::nullopt);
    return;
  }
  EXPECT_EQ(checkpoint.iteration, 10);
  // And through to Hugging Face's folder, from which they were made.
  const testing::TemporaryFolder folder;
  write_huggingface(folder / "hf", checkpoint.description, checkpoint.tensors);
  expect_same(
      testing::golden_tensors(folder / "hf/model.safetensors"),
      testing::golden_tensors(golden("models/gpt2/model.safetensors")));
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
        read_megatron(golden(std::string("checkpoints/") + from));
    write_megatron(
        folder / to,
        checkpoint.description,
        checkpoint.tensors,
        {.split = {.tensor = ranks},
         .iteration = checkpoint.iteration,
         .args = checkpoint.args,
         .others = checkpoint.others});
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string name = "mp_rank_0" + std::to_string(rank);
      const fs::path wanted =
          golden(std::string("checkpoints/") + to) / "iter_0000010";
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
  const ModelDescription d = model == 0 ? small_gpt()
      : model == 1                      ? small_llama()
      : model == 2                      ? small_bert()
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

TEST(Megatron, WhatEachRankHas) {
  const testing::TemporaryFolder folder;
  const Tensors gpt = loaded(numbered(small_gpt()));
  write_megatron(
      folder / "gpt",
      small_gpt(),
      numbered(small_gpt()),
      {.split = {.tensor = 2, .pipeline = 2}, .iteration = 7});
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
      {.split = {.tensor = 2}});
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

/// The same dicts with tensors under other names, or changed.
PythonValue changed(
    const PythonValue& dict,
    const std::function<std::string(const std::string&)>& rename,
    const std::function<at::Tensor(const std::string&, at::Tensor)>& change) {
  std::vector<PythonValue::Member> members;
  for (const auto& [key, value] : dict.entries()) {
    const std::string& name = key.text();
    members.emplace_back(
        rename(name),
        value.is(Kind::dict) ? changed(value, rename, change)
            : value.is(Kind::tensor)
            ? PythonValue::tensor(change(name, value.tensor()))
            : value);
  }
  return PythonValue::dict_of(std::move(members));
}

std::string same_name(const std::string& name) {
  return name;
}

at::Tensor same_tensor(const std::string&, at::Tensor tensor) {
  return tensor;
}

/// Golden files of two ranks, changed.
class Rewritten {
 public:
  Rewritten(
      double version,
      const std::function<std::string(const std::string&)>& rename,
      const std::function<at::Tensor(const std::string&, at::Tensor)>& change,
      const std::function<PythonValue(const PythonValue&)>& args =
          [](const PythonValue& value) { return value; }) {
    for (const char* rank : {"mp_rank_00", "mp_rank_01"}) {
      const PythonValue file = read_torch_file(
          rank_file(golden("checkpoints/megatron_tp2/iter_0000010"), rank));
      fs::create_directories(folder_ / "iter_0000003" / rank);
      write_torch_file(
          rank_file(folder_ / "iter_0000003", rank),
          PythonValue::dict_of(
              {{"args", args(file.at("args"))},
               {"checkpoint_version", PythonValue::real(version)},
               {"model", changed(file.at("model"), rename, change)}}));
    }
    folder_.write("latest_checkpointed_iteration.txt", "3\n");
  }
  const fs::path& path() const { return folder_.path(); }

 private:
  testing::TemporaryFolder folder_;
};

/// Of two heads of 16 per rank: [head, (q, k, v), 16, …] to another order.
at::Tensor reordered(
    const std::string& name,
    const at::Tensor& tensor,
    const std::vector<std::int64_t>& order) {
  if (name.find("query_key_value") == name.npos) {
    return tensor;
  }
  std::vector<std::int64_t> all = order;
  if (tensor.dim() == 2) {
    all.push_back(3);
  }
  const at::Tensor split = tensor.dim() == 2
      ? tensor.view({2, 3, 16, tensor.size(1)})
      : tensor.view({2, 3, 16});
  return split.permute(all).reshape(tensor.sizes());
}

TEST(Megatron, ReadsAllOrdersOfHeads) {
  const auto apart = [](const std::string& name, const at::Tensor& tensor) {
    return reordered(name, tensor, {1, 0, 2});
  };
  const auto turns = [](const std::string& name, const at::Tensor& tensor) {
    return reordered(name, tensor, {0, 2, 1});
  };
  const auto read = [](const Rewritten& files, MegatronHeads heads) {
    return loaded(read_megatron(files.path(), {.heads = heads}).tensors);
  };
  const auto by_version = MegatronHeads::by_version;
  expect_same(read({0, same_name, apart}, by_version), golden_gpt2());
  expect_same(read({1, same_name, turns}, by_version), golden_gpt2());
  expect_same(read({2, same_name, same_tensor}, by_version), golden_gpt2());
  expect_same(
      read({3, same_name, apart}, MegatronHeads::queries_keys_values),
      golden_gpt2());
  // Megatron-DeepSpeed of the end of 2024 and later.
  const auto newer = [](const PythonValue& args) {
    std::vector<PythonValue::Member> members;
    for (const auto& [key, value] : args.state().entries()) {
      members.emplace_back(key.text(), value);
    }
    members.emplace_back(
        "ds_sequence_parallel_fpdt",
        PythonValue::boolean(false));
    return PythonValue::object("argparse", "Namespace", std::move(members));
  };
  expect_same(read({3, same_name, apart, newer}, by_version), golden_gpt2());
  const Rewritten four(4, same_name, same_tensor);
  EXPECT_THAT(
      error_text<CheckpointError>([&] { read_megatron(four.path()); }),
      HasSubstr("an unknown checkpoint_version (4)"));
}

TEST(Megatron, ReadsNamesOfOtherYears) {
  const auto old = [](std::string name) {
    if (name == "encoder") {
      return std::string("transformer");
    }
    if (const auto at = name.find("self_attention"); at != name.npos) {
      name.erase(at, 5);
    }
    return name;
  };
  const auto newer = [](std::string name) {
    if (const auto at = name.find("layernorm"); at != name.npos) {
      name.erase(at, 5);
    }
    return name;
  };
  expect_same(
      loaded(read_megatron(Rewritten(3, old, same_tensor).path()).tensors),
      golden_gpt2());
  expect_same(
      loaded(read_megatron(Rewritten(3, newer, same_tensor).path()).tensors),
      golden_gpt2());
}

TEST(Megatron, ReadsWithoutArgsWhenToldTheModel) {
  const Rewritten files(3, same_name, same_tensor, [](const PythonValue&) {
    return PythonValue();
  });
  EXPECT_THAT(
      error_text<CheckpointError>([&] { read_megatron(files.path()); }),
      HasSubstr("the file has no args, so the model is unknown"));
  const ModelDescription d =
      read_huggingface(golden("models/gpt2")).description;
  expect_same(
      loaded(read_megatron(files.path(), {.description = d}).tensors),
      golden_gpt2());
}

TEST(Megatron, ReadsDeepSpeedsFiles) {
  const testing::TemporaryFolder folder;
  const PythonValue file = read_torch_file(
      rank_file(golden("checkpoints/megatron_tp1/iter_0000010"), "mp_rank_00"));
  fs::create_directories(folder / "global_step10");
  write_torch_file(
      folder / "global_step10/mp_rank_00_model_states.pt",
      PythonValue::dict_of(
          {{"module", file.at("model")},
           {"args", file.at("args")},
           {"iteration", PythonValue::integer(10)},
           {"checkpoint_version", PythonValue::real(3)}}));
  folder.write("latest", "global_step10");
  folder.write("latest_checkpointed_iteration.txt", "10");
  const MegatronCheckpoint checkpoint = read_megatron(folder.path());
  EXPECT_EQ(checkpoint.iteration, 10);
  expect_same(loaded(checkpoint.tensors), golden_gpt2());
  EXPECT_THAT(
      error_text<CheckpointError>(
          [&] { read_megatron(golden("checkpoints/deepspeed_z1_fp32_w2")); }),
      HasSubstr("not a model of Megatron's"));
}

TEST(Megatron, ReadsTheInterleavedSchedule) {
  const testing::TemporaryFolder folder;
  const ModelDescription d = small_gpt();
  write_megatron(
      folder / "four",
      d,
      numbered(d),
      {.split = {.pipeline = 4}, .vocabulary_multiple = 32});
  const auto stage = [&](int number) {
    return read_torch_file(rank_file(
        folder / "four/release",
        "mp_rank_00_00" + std::to_string(number)));
  };
  for (int rank = 0; rank < 2; ++rank) {
    const std::string name = "two/mp_rank_00_00" + std::to_string(rank);
    fs::create_directories(folder / name);
    std::vector<PythonValue::Member> args;
    for (const auto& [key, value] : stage(0).at("args").state().entries()) {
      const bool stages = key.text() == "pipeline_model_parallel_size";
      args.emplace_back(key.text(), stages ? PythonValue::integer(2) : value);
    }
    write_torch_file(
        folder / name / "model_optim_rng.pt",
        PythonValue::dict_of(
            {{"args", PythonValue::object("argparse", "Namespace", args)},
             {"checkpoint_version", PythonValue::real(3)},
             {"model0", stage(rank).at("model")},
             {"model1", stage(rank + 2).at("model")}}));
  }
  expect_same(
      loaded(read_megatron(folder / "two").tensors),
      loaded(numbered(d)));
}

TEST(Megatron, NamesWhatIsWrongWithAFolder) {
  const auto error = [](const fs::path& folder) {
    return error_text<CheckpointError>([&] { read_megatron(folder); });
  };
  const testing::TemporaryFolder folder;
  EXPECT_THAT(error(folder.path()), HasSubstr("no mp_rank_00"));
  folder.write("latest_checkpointed_iteration.txt", "ten");
  EXPECT_THAT(
      error(folder.path()),
      HasSubstr("neither a number nor \"release\" (ten)"));
  folder.write("latest_checkpointed_iteration.txt", "3");
  EXPECT_THAT(error(folder.path()), HasSubstr("iter_0000003: no checkpoint"));
  fs::remove(folder / "latest_checkpointed_iteration.txt");
  folder.write("latest", "../x");
  EXPECT_THAT(
      error(folder.path()),
      HasSubstr("latest: not the name of a folder beside it"));

  write_megatron(
      folder / "gpt",
      small_gpt(),
      numbered(small_gpt()),
      {.split = {.tensor = 4}});
  fs::remove_all(folder / "gpt/release/mp_rank_02");
  EXPECT_THAT(
      error(folder / "gpt"),
      HasSubstr("a rank of the checkpoint is missing (mp_rank_02)"));
  fs::remove_all(folder / "gpt/release/mp_rank_03");
  EXPECT_THAT(
      error(folder / "gpt"),
      HasSubstr("tensor_model_parallel_size is 4, and there are files of 2"));
}

TEST(Megatron, NamesWhatContradicts) {
  const auto error = [](const Rewritten& files) {
    return error_text<CheckpointError>([&] { read_megatron(files.path()); });
  };
  EXPECT_THAT(
      error(
          {3,
           same_name,
           [](const std::string& name, const at::Tensor& tensor) {
             return name == "layers.1.mlp.dense_h_to_4h.weight"
                 ? tensor.narrow(0, 0, 100).clone()
                 : tensor;
           }}),
      HasSubstr("layers.1.mlp.dense_h_to_4h.weight\" does not fit the model "
                "(Float [100, 64], not Float [128, 64])"));
  EXPECT_THAT(
      error(
          {3,
           [](const std::string& name) {
             return name == "layers.0.mlp.dense_h_to_4h.bias" ? "other" : name;
           },
           same_tensor}),
      HasSubstr("a tensor of the model is missing "
                "(language_model.encoder.layers.0.mlp.dense_h_to_4h.bias)"));
  EXPECT_THAT(
      error(
          {3,
           same_name,
           same_tensor,
           [](const PythonValue& args) {
             std::vector<PythonValue::Member> members;
             for (const auto& [key, value] : args.state().entries()) {
               members.emplace_back(
                   key.text(),
                   key.text() == "num_layers" ? PythonValue::integer(1)
                                              : value);
             }
             return PythonValue::object("argparse", "Namespace", members);
           }}),
      HasSubstr("a tensor that this model does not have "
                "(language_model.encoder.layers.1."));
}

TEST(Megatron, RefusesWhatCannotBeCut) {
  const testing::TemporaryFolder folder;
  const auto error = [&](const ModelDescription& d, MegatronSplit split) {
    return error_text([&] {
      write_megatron(folder / "x", d, numbered(d), {.split = split});
    });
  };
  EXPECT_THAT(
      error(small_gpt(), {.tensor = 3}),
      HasSubstr("the heads cannot be cut over the tensor parallel ranks (4 "
                "over 3)"));
  EXPECT_THAT(
      error(small_llama(), {.tensor = 8}),
      HasSubstr("the key/value heads cannot be cut"));
  EXPECT_THAT(
      error(small_gpt(), {.pipeline = 3}),
      HasSubstr("the layers cannot be cut over the pipeline stages (4 over "
                "3)"));
  EXPECT_THAT(
      error(small_t5(), {.pipeline = 5, .encoder_stages = 2}),
      HasSubstr("the decoder's layers cannot be cut"));
  EXPECT_THAT(error(small_gpt(), {.tensor = 0}), HasSubstr("(4 over 0)"));
  EXPECT_THAT(
      error(read_huggingface(golden("models/bert")).description, {}),
      HasSubstr("Megatron has no model with norms after attention and MLP"));
  EXPECT_THAT(
      error(read_huggingface(golden("models/t5_relu")).description, {}),
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
  ModelDescription d = small_gpt();
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
  const HuggingFaceModel model = read_huggingface(golden("models/llama"));
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
      testing::golden_tensors(golden("models/llama/model.safetensors")));
}

TEST(Megatron, ItsBertIsTransformersMegatronBert) {
  const testing::TemporaryFolder folder;
  const ModelDescription d = small_bert();
  write_huggingface(folder / "hf", d, numbered(d));
  EXPECT_THAT(
      read_file(folder / "hf/config.json", 10'000),
      HasSubstr("\"model_type\": \"megatron-bert\""));
  const HuggingFaceModel again = read_huggingface(folder / "hf");
  expect_same(loaded(again.tensors), loaded(numbered(d)));
}

} // namespace
} // namespace cairn::checkpoints::megatron_test
