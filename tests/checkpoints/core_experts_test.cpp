// Experts under Megatron-Core's names: sequential, grouped, and in one matrix.

#include "megatron_files.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/convert.h>
#include <cairn/checkpoints/huggingface.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/checkpoints/torch_file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::checkpoints::core_experts_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Members = std::vector<PythonValue::Member>;
using Tensors = std::map<std::string, at::Tensor>;

model::ModelDescription mixtral() {
  return read_huggingface(golden_path("models/mixtral")).description;
}

/// A GPT with experts, of which a token gets one, and biases.
model::ModelDescription gpt_with_experts() {
  model::ModelDescription d = small_gpt();
  d.experts = model::ExpertsDescription{
      .counts = {4},
      .interval = 1,
      .drop_tokens = false,
      .random_selection = false,
      .sample_second = false,
      .loss_coefficient = 0.01};
  return d;
}

TEST(CoreExperts, GoThroughTheirFiles) {
  const testing::TemporaryFolder folder;
  int number = 0;
  for (const auto& d : {mixtral(), gpt_with_experts()}) {
    for (const auto names : {MegatronNames::core, MegatronNames::core_local}) {
      for (const auto format :
           {MegatronFormat::torch, MegatronFormat::torch_dist}) {
        const fs::path place = folder / std::to_string(number++);
        const bool ranks = format == MegatronFormat::torch;
        write_megatron(
            place,
            d,
            numbered(d),
            {.split = {.tensor = ranks ? 2 : 1, .pipeline = ranks ? 2 : 1},
             .format = format,
             .names = names,
             .iteration = 7});
        const MegatronCheckpoint read = read_megatron(place);
        EXPECT_EQ(to_json(read.description), to_json([&] {
                    model::ModelDescription wanted = d;
                    wanted.padded_vocabulary =
                        read.description.padded_vocabulary;
                    wanted.begin_token.reset();
                    wanted.end_token.reset();
                    return wanted;
                  }()));
        expect_same(loaded(read.tensors), loaded(numbered(d)));
      }
    }
  }
}

TEST(CoreExperts, HaveTheNamesOfTheirModules) {
  const testing::TemporaryFolder folder;
  const model::ModelDescription d = mixtral();
  const Tensors ours = loaded(numbered(d));
  const at::Tensor both = at::cat(
      {ours.at("layers.1.mlp.experts.gate.weight")[3],
       ours.at("layers.1.mlp.experts.up.weight")[3]});
  const auto model_of = [&](MegatronNames names) {
    const fs::path place = folder / std::to_string(static_cast<int>(names));
    write_megatron(place, d, numbered(d), {.names = names, .iteration = 1});
    return read_torch_file(rank_file(place / "iter_0000001", "mp_rank_00"))
        .at("model");
  };
  const PythonValue grouped = model_of(MegatronNames::core);
  EXPECT_TRUE(grouped.at("decoder.layers.1.mlp.experts.linear_fc1.weight3")
                  .tensor()
                  .equal(both));
  EXPECT_TRUE(grouped.at("decoder.layers.1.mlp.experts.linear_fc2._extra_state")
                  .is_none());
  const PythonValue sequential = model_of(MegatronNames::core_local);
  const std::string expert =
      "decoder.layers.1.mlp.experts.local_experts.3.linear_fc";
  EXPECT_TRUE(sequential.at(expert + "1.weight").tensor().equal(both));
  EXPECT_TRUE(sequential.at(expert + "2.weight")
                  .tensor()
                  .equal(ours.at("layers.1.mlp.experts.down.weight")[3]));
  EXPECT_TRUE(sequential.at(expert + "1._extra_state").is_none());
  for (const PythonValue& model : {grouped, sequential}) {
    EXPECT_TRUE(model.find("decoder.layers.1.mlp.router.weight"));
    EXPECT_TRUE(model.find("decoder.layers.1.pre_mlp_layernorm.weight"));
  }
}

/// The members of a dict, or of the state of an object.
Members members_of(const PythonValue& dict) {
  Members members;
  for (const auto& [key, value] : dict.entries()) {
    members.emplace_back(key.text(), value);
  }
  return members;
}

/// A file with another model and other args.
void write_changed(
    const fs::path& file,
    const PythonValue& content,
    const Members& model,
    const Members& args) {
  Members all = members_of(content.at("args").state());
  for (const auto& [name, value] : args) {
    std::erase_if(all, [&name = name](const PythonValue::Member& each) {
      return each.first == name;
    });
    all.emplace_back(name, value);
  }
  Members members;
  for (const auto& [name, value] : members_of(content)) {
    if (name != "args" && name != "model") {
      members.emplace_back(name, value);
    }
  }
  members.emplace_back(
      "args",
      PythonValue::object("argparse", "Namespace", all));
  members.emplace_back("model", PythonValue::dict_of(model));
  fs::create_directories(file.parent_path());
  write_torch_file(file, PythonValue::dict_of(members));
}

/// The only file of the Mixtral's, with sequential experts.
PythonValue sequential_file(const fs::path& folder) {
  write_megatron(
      folder,
      mixtral(),
      numbered(mixtral()),
      {.names = MegatronNames::core_local, .iteration = 1});
  return read_torch_file(rank_file(folder / "iter_0000001", "mp_rank_00"));
}

TEST(CoreExperts, MayBeOnSeveralRanks) {
  const testing::TemporaryFolder folder;
  const PythonValue content = sequential_file(folder / "one");
  const fs::path two = folder / "two";
  for (int rank = 0; rank < 2; ++rank) {
    Members model;
    for (const auto& [name, value] : members_of(content.at("model"))) {
      const auto at = name.find("local_experts.");
      if (at == name.npos) {
        model.emplace_back(name, value);
        continue;
      }
      const std::size_t digit = at + std::string("local_experts.").size();
      const int expert = name[digit] - '0';
      if (expert / 2 == rank) {
        std::string own = name;
        own[digit] = static_cast<char>('0' + expert % 2);
        model.emplace_back(own, value);
      }
    }
    write_changed(
        rank_file(two, "mp_rank_00_00" + std::to_string(rank)),
        content,
        model,
        {{"expert_model_parallel_size", PythonValue::integer(2)}});
  }
  const MegatronCheckpoint read = read_megatron(two);
  EXPECT_EQ(read.split, MegatronSplit{.expert = 2});
  expect_same(loaded(read.tensors), loaded(numbered(mixtral())));
}

TEST(CoreExperts, MayBeOnSeveralRanksOfEachStage) {
  const testing::TemporaryFolder folder;
  write_megatron(
      folder / "one",
      mixtral(),
      numbered(mixtral()),
      {.split = {.pipeline = 2}, .names = MegatronNames::core, .iteration = 1});
  for (int stage = 0; stage < 2; ++stage) {
    const std::string name = "mp_rank_00_00" + std::to_string(stage);
    const PythonValue content =
        read_torch_file(rank_file(folder / "one/iter_0000001", name));
    for (int rank = 0; rank < 2; ++rank) {
      Members model;
      for (const auto& [given, value] : members_of(content.at("model"))) {
        if (given.find(".experts.linear_fc") == given.npos ||
            given.ends_with("_extra_state")) {
          model.emplace_back(given, value);
        } else if (const int expert = given.back() - '0'; expert / 2 == rank) {
          std::string own = given;
          own.back() = static_cast<char>('0' + expert % 2);
          model.emplace_back(own, value);
        }
      }
      write_changed(
          rank_file(folder / "two", name + "_00" + std::to_string(rank)),
          content,
          model,
          {{"expert_model_parallel_size", PythonValue::integer(2)}});
    }
  }
  expect_same(
      loaded(read_megatron(folder / "two").tensors),
      loaded(numbered(mixtral())));
  fs::remove_all(folder / "two/mp_rank_00_001_001");
  EXPECT_THAT(
      error_text<CheckpointError>([&] { read_megatron(folder / "two"); }),
      HasSubstr("a rank of the checkpoint is missing (mp_rank_00_001_001)"));
}

/// Experts as Megatron-Core's GroupedMLP held them until 2025: matrices that
/// hold [experts, in, out], under other shapes.
TEST(CoreExperts, MayBeInOneMatrix) {
  const testing::TemporaryFolder folder;
  const PythonValue content = sequential_file(folder / "one");
  const model::ModelDescription d = mixtral();
  const Tensors ours = loaded(numbered(d));
  Members model;
  for (const auto& [name, value] : members_of(content.at("model"))) {
    if (name.find(".local_experts.") == name.npos) {
      model.emplace_back(name, value);
    }
  }
  for (std::int64_t layer = 0; layer < d.layers; ++layer) {
    const std::string own = "layers." + std::to_string(layer) + ".mlp.experts.";
    const at::Tensor first =
        at::cat({ours.at(own + "gate.weight"), ours.at(own + "up.weight")}, 1);
    const at::Tensor second = ours.at(own + "down.weight");
    model.emplace_back(
        "decoder." + own + "weight1",
        PythonValue::tensor(
            first.transpose(1, 2).contiguous().view({d.hidden, -1})));
    model.emplace_back(
        "decoder." + own + "weight2",
        PythonValue::tensor(
            second.transpose(1, 2).contiguous().view({-1, d.hidden})));
  }
  write_changed(rank_file(folder / "two", "mp_rank_00"), content, model, {});
  expect_same(loaded(read_megatron(folder / "two").tensors), ours);
}

/// Transformer Engine's with --moe-single-grouped-weight, on two ranks.
TEST(CoreExperts, MayBeInOneTensorOfARank) {
  const testing::TemporaryFolder folder;
  const PythonValue content = sequential_file(folder / "one");
  const model::ModelDescription d = mixtral();
  const Tensors ours = loaded(numbered(d));
  for (int rank = 0; rank < 2; ++rank) {
    Members model;
    for (const auto& [name, value] : members_of(content.at("model"))) {
      if (name.find(".local_experts.") == name.npos) {
        model.emplace_back(name, value);
      }
    }
    for (std::int64_t layer = 0; layer < d.layers; ++layer) {
      const std::string own =
          "layers." + std::to_string(layer) + ".mlp.experts.";
      const auto half = [&](const at::Tensor& all) {
        return all.narrow(0, rank * all.size(0) / 2, all.size(0) / 2);
      };
      const at::Tensor first = half(at::cat(
          {ours.at(own + "gate.weight"), ours.at(own + "up.weight")},
          1));
      model.emplace_back(
          "decoder." + own + "linear_fc1.weight",
          PythonValue::tensor(first));
      model.emplace_back(
          "decoder." + own + "linear_fc1._extra_state",
          PythonValue());
      model.emplace_back( // the rows of one expert after the other's
          "decoder." + own + "linear_fc2.weight",
          PythonValue::tensor(
              half(ours.at(own + "down.weight")).reshape({-1, d.ffn})));
    }
    write_changed(
        rank_file(folder / "two", "mp_rank_00_00" + std::to_string(rank)),
        content,
        model,
        {{"expert_model_parallel_size", PythonValue::integer(2)}});
  }
  expect_same(loaded(read_megatron(folder / "two").tensors), ours);
}

TEST(CoreExperts, OfMegatronCoreAreTheSameInBothFormats) {
  for (const std::string name : {"experts", "qwen", "bert", "t5"}) {
    const fs::path folder = golden_path("checkpoints_core/families/" + name);
    const MegatronCheckpoint ranks = read_megatron(folder / "torch");
    const MegatronCheckpoint dist = read_megatron(folder / "torch_dist");
    EXPECT_EQ(to_json(ranks.description), to_json(dist.description));
    EXPECT_EQ(ranks.description.vocabulary, 61);
    expect_same(loaded(ranks.tensors), loaded(dist.tensors));
  }
  const model::ModelDescription d =
      read_megatron(golden_path("checkpoints_core/families/experts/torch"))
          .description;
  EXPECT_EQ(d.ffn, 20); // of an expert
  ASSERT_TRUE(d.experts);
  EXPECT_EQ(d.experts->top_k, 2);
}

TEST(CoreExperts, GoFromHuggingFaceAndBack) {
  const testing::TemporaryFolder folder;
  for (const auto format :
       {MegatronFormat::torch, MegatronFormat::torch_dist}) {
    const std::string name = std::to_string(static_cast<int>(format));
    convert(
        {.input = golden_path("models/mixtral"),
         .output = folder / ("megatron" + name),
         .to = CheckpointFormat::megatron,
         .megatron_format = format});
    convert(
        {.input = folder / ("megatron" + name),
         .output = folder / ("huggingface" + name),
         .to = CheckpointFormat::huggingface});
    expect_same(
        loaded(read_huggingface(folder / ("huggingface" + name)).tensors),
        loaded(read_huggingface(golden_path("models/mixtral")).tensors));
  }
}

TEST(CoreExperts, AreRefusedWhereTheyDoNotFit) {
  const testing::TemporaryFolder folder;
  const PythonValue content = sequential_file(folder / "one");
  int number = 0;
  const auto error = [&](const std::function<void(Members&)>& change,
                         const Members& args = {}) {
    Members model = members_of(content.at("model"));
    change(model);
    const fs::path place = folder / ("bad" + std::to_string(number++));
    write_changed(rank_file(place, "mp_rank_00"), content, model, args);
    return error_text<CheckpointError>([&] { read_megatron(place); });
  };
  const std::string expert =
      "decoder.layers.0.mlp.experts.local_experts.2.linear_fc2.weight";
  EXPECT_THAT(
      error([&](Members& m) {
        std::erase_if(m, [&](const auto& each) {
          return each.first == expert;
        });
      }),
      HasSubstr("an expert is missing"));
  EXPECT_THAT(
      error([&](Members& m) {
        for (auto& [name, value] : m) {
          if (name == expert) {
            value = PythonValue::tensor(at::ones({3, 4}));
          }
        }
      }),
      HasSubstr("experts of different shapes or types"));
  EXPECT_THAT(
      error([](Members& m) {
        m.emplace_back(
            "decoder.layers.0.mlp.router.expert_bias",
            PythonValue::tensor(at::ones({4})));
      }),
      HasSubstr("a tensor that this model does not have"));
  const auto unchanged = [](Members&) {};
  EXPECT_THAT(
      error(
          unchanged,
          {{"moe_router_score_function", PythonValue::text("sigmoid")}}),
      HasSubstr("scores of experts that are not supported (sigmoid)"));
  EXPECT_THAT(
      error(unchanged, {{"moe_layer_freq", PythonValue::integer(2)}}),
      HasSubstr("experts in some of the layers are not supported"));
  EXPECT_THAT(
      error(
          unchanged,
          {{"moe_router_pre_softmax", PythonValue::boolean(true)}}),
      HasSubstr("moe_router_pre_softmax"));
  model::ModelDescription d = mixtral();
  d.experts->interval = 2;
  EXPECT_THAT(
      error_text<ConfigError>(
          [&] { write_megatron(folder / "every_second", d, numbered(d), {}); }),
      HasSubstr("experts in some layers only"));
}

TEST(CoreNames, NormsOfQueriesAndBiasesGoThroughTheirFiles) {
  const testing::TemporaryFolder folder;
  for (const char* name : {"qwen2", "qwen3"}) {
    const model::ModelDescription d =
        read_huggingface(golden_path(std::string("models/") + name))
            .description;
    for (const auto format :
         {MegatronFormat::torch, MegatronFormat::torch_dist}) {
      const fs::path place =
          folder / (name + std::to_string(static_cast<int>(format)));
      write_megatron(place, d, numbered(d), {.format = format, .iteration = 3});
      const MegatronCheckpoint read = read_megatron(place);
      EXPECT_EQ(read.description.query_key_norm, d.query_key_norm);
      EXPECT_EQ(read.description.query_key_value_bias, d.query_key_value_bias);
      EXPECT_EQ(read.description.family, d.family);
      expect_same(loaded(read.tensors), loaded(numbered(d)));
    }
  }
}

} // namespace
} // namespace cairn::checkpoints::core_experts_test
