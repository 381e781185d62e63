// Files in Megatron's format that others wrote: in other years, by other
// programs, or damaged.

#include "checkpoints/megatron/rank_tensors.h"
#include "checkpoints/megatron_files.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/huggingface.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/checkpoints/torch_file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace cairn::checkpoints::megatron_reading_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Kind = PythonValue::Kind;

/// The dicts with tensors under other names, or changed.
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
      const PythonValue file = read_torch_file(rank_file(
          golden_path("checkpoints/megatron_tp2/iter_0000010"),
          rank));
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

/// Two heads of 16 per rank, from [head, (q, k, v), 16, …] to another order.
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
  // Megatron-DeepSpeed writes this from the end of 2024 on.
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
  const model::ModelDescription d =
      read_huggingface(golden_path("models/gpt2")).description;
  expect_same(
      loaded(read_megatron(files.path(), {.description = d}).tensors),
      golden_gpt2());

  // Megatron's own words do as well; values that such old files lack were
  // always the same.
  MegatronReadOptions told;
  told.args = PythonValue::object(
      "argparse",
      "Namespace",
      {{"num_layers", PythonValue::integer(d.layers)},
       {"hidden_size", PythonValue::integer(d.hidden)},
       {"num_attention_heads", PythonValue::integer(d.heads)},
       {"max_position_embeddings", PythonValue::integer(d.positions)}});
  const MegatronCheckpoint old = read_megatron(files.path(), told);
  EXPECT_EQ(old.description.activation, model::ActivationKind::gelu_tanh);
  expect_same(loaded(old.tensors), golden_gpt2());
}

/// The args of a file of one rank, changed. Those without a value go.
void change_args(
    const fs::path& folder,
    const std::map<std::string, PythonValue>& changes) {
  const fs::path path = rank_file(folder / "release", "mp_rank_00");
  const PythonValue file = read_torch_file(path);
  std::vector<PythonValue::Member> args;
  for (const auto& [key, value] : file.at("args").state().entries()) {
    const auto change = changes.find(key.text());
    if (change == changes.end()) {
      args.emplace_back(key.text(), value);
    } else if (!change->second.is_none()) {
      args.emplace_back(key.text(), change->second);
    }
  }
  write_torch_file(
      path,
      PythonValue::dict_of(
          {{"args", PythonValue::object("argparse", "Namespace", args)},
           {"checkpoint_version", PythonValue::real(3)},
           {"model", file.at("model")}}));
}

TEST(Megatron, ReadsTheRotaryBaseUnderBothItsNames) {
  const testing::TemporaryFolder folder;
  model::ModelDescription d = small_gpt();
  d.position = model::PositionKind::rotary;
  d.rope_theta = 500000;
  MegatronReadOptions told;
  told.args = PythonValue::object(
      "argparse",
      "Namespace",
      {{"rotary_base", PythonValue::real(10000)}});
  for (const std::string missing : {"rotary_base", "rope_theta"}) {
    const fs::path files = folder / ("without_" + missing);
    write_megatron(files, d, numbered(d), {});
    change_args(files, {{missing, PythonValue()}});
    told.compare_args = false;
    EXPECT_EQ(read_megatron(files, told).description.rope_theta, 500000)
        << missing;
    told.compare_args = true;
    EXPECT_THAT(
        error_text<CheckpointError>([&] { read_megatron(files, told); }),
        HasSubstr("rotary_base is 500000, not 10000"));
  }
  const fs::path old = folder / "neither";
  write_megatron(old, d, numbered(d), {});
  change_args(
      old,
      {{"rotary_base", PythonValue()}, {"rope_theta", PythonValue()}});
  EXPECT_EQ(read_megatron(old, told).description.rope_theta, 10000);
}

TEST(Megatron, CountsTheLayersOfADecoder) {
  const testing::TemporaryFolder folder;
  model::ModelDescription d = small_gpt();
  d.family = model::ModelFamily::t5;
  d.decoder_layers = 2;
  d.head_bias = true;
  write_megatron(folder.path(), d, numbered(d), {});
  EXPECT_EQ(read_megatron(folder.path()).description.decoder_layers, 2);
  change_args(folder.path(), {{"decoder_num_layers", PythonValue::integer(3)}});
  EXPECT_THAT(
      error_text<CheckpointError>([&] { read_megatron(folder.path()); }),
      HasSubstr("layers of the decoder are missing (decoder_num_layers is 3, "
                "and 2 are there)"));

  // No name counts more layers than any model has.
  megatron::Contents contents;
  contents.names = MegatronNames::core_local;
  contents.ranks.emplace_back();
  for (const char* name :
       {"encoder.layers.0.x", "decoder.layers.9223372036854775807.x"}) {
    megatron::add_tensor(
        contents.ranks.front(),
        name,
        LazyTensor(at::kFloat, {}, [] { return at::Tensor(); }),
        "file");
  }
  EXPECT_EQ(megatron::facts_of(contents).decoder_layers, 10'001);
}

TEST(Megatron, ReadsDeepSpeedsFiles) {
  const testing::TemporaryFolder folder;
  const PythonValue file = read_torch_file(rank_file(
      golden_path("checkpoints/megatron_tp1/iter_0000010"),
      "mp_rank_00"));
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
      error_text<CheckpointError>([&] {
        read_megatron(golden_path("checkpoints/deepspeed_z1_fp32_w2"));
      }),
      HasSubstr("not a model of Megatron's"));
}

TEST(Megatron, ReadsTheInterleavedSchedule) {
  const testing::TemporaryFolder folder;
  const model::ModelDescription d = small_gpt();
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

} // namespace
} // namespace cairn::checkpoints::megatron_reading_test
