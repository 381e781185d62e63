#include "checkpoints/deepspeed_states.h"
#include "checkpoints/same_tensors.h"
#include "support/error_text.h"
#include "support/fuzz.h"
#include "support/golden_tensors.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/torch_file.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

// Folders that the real DeepSpeed wrote, and ours like them. python_test.cpp
// tests that DeepSpeed reads ours.

namespace cairn::checkpoints::deepspeed_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void expect_equal(
    const std::map<std::string, at::Tensor>& got,
    const std::map<std::string, at::Tensor>& wanted) {
  EXPECT_EQ(got.size(), wanted.size());
  for (const auto& [name, tensor] : wanted) {
    ASSERT_TRUE(got.contains(name)) << name;
    EXPECT_TRUE(got.at(name).equal(tensor)) << name;
  }
}

const std::vector<std::string>& all_golden() {
  static const std::vector<std::string> names{
      "deepspeed_z0_bf16_w1",
      "deepspeed_z0_fp32_w1",
      "deepspeed_z1_bf16_w2",
      "deepspeed_z1_bf16_w2_groups",
      "deepspeed_z1_fp32_w2",
      "deepspeed_z2_bf16_w2",
      "deepspeed_z2_fp16_w2",
      "deepspeed_z3_bf16_w2",
      "deepspeed_z3_bf16_w2_groups",
      "deepspeed_z3_fp32_w2"};
  return names;
}

TEST(DeepSpeed, GivesTheWeightsThatItsOwnToolGives) {
  for (const std::string& name : all_golden()) {
    SCOPED_TRACE(name);
    const DeepSpeedCheckpoint checkpoint({.folder = golden(name)});
    expect_equal(
        loaded(checkpoint.fp32_weights()),
        testing::golden_tensors(golden(name) / "fp32.safetensors"));
    EXPECT_EQ(fmt::format("z{}", checkpoint.stage()), name.substr(10, 2));
    EXPECT_EQ(checkpoint.ranks(), checkpoint.stage() == 0 ? 1 : 2);
    EXPECT_EQ(checkpoint.tag(), "global_step10");
    EXPECT_EQ(checkpoint.global_steps(), 10);
  }
}

TEST(DeepSpeed, GivesTheWeightsAsTheyWereTrained) {
  for (const std::string& name : all_golden()) {
    SCOPED_TRACE(name);
    const DeepSpeedCheckpoint checkpoint({.folder = golden(name)});
    const at::ScalarType type = name.find("fp32") != std::string::npos
        ? at::kFloat
        : name.find("fp16") != std::string::npos ? at::kHalf
                                                 : at::kBFloat16;
    const auto fp32 =
        testing::golden_tensors(golden(name) / "fp32.safetensors");
    const auto weights = loaded(checkpoint.weights());
    EXPECT_EQ(weights.size(), fp32.size());
    for (const auto& [key, tensor] : fp32) {
      EXPECT_TRUE(weights.at(key).equal(tensor.to(type))) << key;
    }
  }
}

/// The three stages trained the same steps in fp32.
TEST(DeepSpeed, StatesAreThoseOfTheSameParameterAtEveryStage) {
  const auto states_of = [](const std::string& name) {
    return loaded(
        DeepSpeedCheckpoint({.folder = golden(name)}).optimizer_states());
  };
  const auto wanted = states_of("deepspeed_z0_fp32_w1");
  EXPECT_EQ(wanted.size(), 15U); // 3 states of 5 parameters
  for (const char* name : {"deepspeed_z1_fp32_w2", "deepspeed_z3_fp32_w2"}) {
    SCOPED_TRACE(name);
    const auto got = states_of(name);
    EXPECT_EQ(got.size(), wanted.size());
    for (const auto& [key, tensor] : wanted) {
      ASSERT_TRUE(got.contains(key)) << key;
      EXPECT_TRUE(at::allclose(got.at(key), tensor, 1e-4, 1e-7)) << key;
    }
  }
}

TEST(DeepSpeed, StageZeroHasMastersOfItsOwn) {
  const DeepSpeedCheckpoint bf16({.folder = golden("deepspeed_z0_bf16_w1")});
  const auto masters = loaded(bf16.masters());
  const auto weights = loaded(bf16.weights());
  ASSERT_EQ(masters.size(), 5U);
  for (const auto& [name, tensor] : masters) {
    EXPECT_EQ(tensor.scalar_type(), at::kFloat);
    EXPECT_TRUE(
        at::allclose(tensor, weights.at(name).to(at::kFloat), 0.01, 1e-3))
        << name;
  }
  EXPECT_EQ(bf16.optimizer_states().size(), 15U);
  EXPECT_EQ(bf16.loss_scaler().at("cur_scale").real(), 1.0);
  const DeepSpeedCheckpoint fp32({.folder = golden("deepspeed_z0_fp32_w1")});
  EXPECT_TRUE(fp32.masters().empty());
  EXPECT_TRUE(fp32.loss_scaler().is_none());
}

TEST(DeepSpeed, KnowsTheRestOfTheRun) {
  const DeepSpeedCheckpoint checkpoint(
      {.folder = golden("deepspeed_z2_fp16_w2")});
  EXPECT_EQ(checkpoint.skipped_steps(), 1);
  EXPECT_EQ(checkpoint.global_samples(), 80);
  EXPECT_EQ(checkpoint.lr_scheduler().at("last_batch_iteration").integer(), 8);
  EXPECT_EQ(checkpoint.loss_scaler().at("cur_scale").real(), 512.0);
  EXPECT_EQ(checkpoint.client_state().size(), 2U);
  EXPECT_EQ(checkpoint.client_state().at("note").text(), "client");
  EXPECT_EQ(checkpoint.client_state().at("iteration").integer(), 10);
  EXPECT_EQ(
      checkpoint.config().at("zero_optimization").at("stage").integer(),
      2);
  EXPECT_EQ(checkpoint.model_parallel_size(), 1);
}

TEST(DeepSpeed, KnowsTheGroups) {
  for (const char* name :
       {"deepspeed_z1_bf16_w2_groups", "deepspeed_z3_bf16_w2_groups"}) {
    const auto groups = DeepSpeedCheckpoint({.folder = golden(name)}).groups();
    ASSERT_EQ(groups.size(), 2U);
    EXPECT_THAT(groups[0].names, ElementsAre("fc1.weight", "fc2.weight"));
    EXPECT_THAT(
        groups[1].names,
        ElementsAre("fc1.bias", "norm.weight", "norm.bias"));
    EXPECT_EQ(groups[0].options.at("weight_decay").real(), 0.1);
    EXPECT_EQ(groups[1].options.at("weight_decay").real(), 0.0);
    EXPECT_FALSE(groups[0].options.find("params"));
  }
}

TEST(DeepSpeed, ReadsAnyTagAndTheFolderItself) {
  const fs::path folder = golden("deepspeed_z1_fp32_w2");
  EXPECT_EQ(
      DeepSpeedCheckpoint({.folder = folder, .tag = "global_step10"}).stage(),
      1);
  EXPECT_EQ(
      DeepSpeedCheckpoint({.folder = folder / "global_step10"}).stage(),
      1);
}

/// States, groups and the rest survive every stage and number of ranks.
TEST(DeepSpeed, ReadsWhatItWrote) {
  const testing::TemporaryFolder folder;
  for (const char* name :
       {"deepspeed_z3_bf16_w2_groups", "deepspeed_z2_fp16_w2"}) {
    const DeepSpeedCheckpoint source({.folder = golden(name)});
    const bool fp16 = source.stage() == 2;
    for (const int stage : {0, 1, 2, 3}) {
      for (const int ranks : {1, 3}) {
        SCOPED_TRACE(fmt::format("{} z{} w{}", name, stage, ranks));
        const auto place =
            folder.path() / fmt::format("{}_{}_{}", name, stage, ranks);
        write_deepspeed(
            place,
            golden_state(name),
            {.stage = stage,
             .ranks = ranks,
             .type = fp16 ? at::kHalf : at::kBFloat16,
             .sub_group_size = 40});
        const DeepSpeedCheckpoint again({.folder = place});
        EXPECT_EQ(again.stage(), stage);
        EXPECT_EQ(again.ranks(), ranks);
        EXPECT_EQ(again.global_steps(), 10);
        expect_equal(loaded(again.masters()), loaded(source.masters()));
        expect_equal(
            loaded(again.optimizer_states()),
            loaded(source.optimizer_states()));
        expect_equal(loaded(again.weights()), loaded(source.weights()));
        const auto groups = again.groups();
        ASSERT_EQ(groups.size(), source.groups().size());
        for (std::size_t g = 0; g < groups.size(); ++g) {
          EXPECT_EQ(groups[g].names, source.groups()[g].names);
          EXPECT_EQ(
              groups[g].options.describe(),
              source.groups()[g].options.describe());
        }
        EXPECT_EQ(
            again.loss_scaler().at("cur_scale").real(),
            fp16 ? 512.0 : 1.0);
        EXPECT_EQ(again.client_state().at("note").text(), "client");
      }
    }
  }
}

TEST(DeepSpeed, WritesWithOneTensorInMemory) {
  const testing::TemporaryFolder folder;
  int alive = 0;
  int most = 0;
  const auto counted = [&](float value) {
    return LazyTensor{at::kFloat, {100}, [&, value] {
                        most = std::max(most, ++alive);
                        auto* data = new float[100];
                        std::fill_n(data, 100, value);
                        return at::from_blob(data, {100}, [&](void* memory) {
                          --alive;
                          delete[] static_cast<float*>(memory);
                        });
                      }};
  };
  DeepSpeedState state;
  for (const char* name : {"a", "b", "c"}) {
    state.parameters.emplace_back(name, counted(1));
    state.optimizer_states.emplace_back(
        std::string("exp_avg/") + name,
        counted(2));
  }
  for (const int stage : {0, 1, 2, 3}) {
    write_deepspeed(
        folder.path() / std::to_string(stage),
        state,
        {.stage = stage, .ranks = 2});
  }
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(most, 1);
}

TEST(DeepSpeed, KeepsTiesBuffersAndFrozenParameters) {
  const testing::TemporaryFolder folder;
  const DeepSpeedState state = odd_state();
  for (const int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    const auto place = folder.path() / std::to_string(stage);
    write_deepspeed(
        place,
        state,
        {.stage = stage, .ranks = 4, .type = at::kFloat, .tag = "last"});
    const DeepSpeedCheckpoint again({.folder = place});
    EXPECT_THAT(
        again.ties(),
        ElementsAre(Tie{"head.weight", "embedding.weight"}));
    EXPECT_THAT(again.buffers(), ElementsAre("running", "count"));
    const auto weights = loaded(again.fp32_weights());
    EXPECT_EQ(weights.size(), 9U);
    for (const NamedTensors* part :
         {&state.parameters, &state.frozen, &state.buffers}) {
      for (const auto& [name, tensor] : *part) {
        EXPECT_TRUE(weights.at(name).equal(tensor.load())) << name;
      }
    }
    EXPECT_TRUE(
        weights.at("head.weight").equal(weights.at("embedding.weight")));
  }
}

/// fp16's fused optimizer at stage 0 is flat and has no names.
TEST(DeepSpeed, ReadsAFusedOptimizer) {
  const testing::TemporaryFolder folder;
  const at::Tensor flat = at::arange(10, at::kFloat);
  const PythonValue model = PythonValue::dict_of(
      {{"module",
        PythonValue::dict_of(
            {{"a", PythonValue::tensor(at::ones({2, 3}, at::kHalf))},
             {"b", PythonValue::tensor(at::ones({4}, at::kHalf))}})},
       {"optimizer",
        PythonValue::dict_of(
            {{"cur_scale", PythonValue::real(8)},
             {"optimizer_state_dict",
              PythonValue::dict_of(
                  {{"state",
                    PythonValue::dict(
                        {{PythonValue::integer(0),
                          PythonValue::dict_of(
                              {{"step", PythonValue::integer(4)},
                               {"exp_avg",
                                PythonValue::tensor(flat.add(1))}})}})},
                   {"param_groups",
                    PythonValue::list({PythonValue::dict_of(
                        {{"params",
                          PythonValue::list({PythonValue::integer(0)})}})})}})},
             {"fp32_groups_flat",
              PythonValue::list({PythonValue::tensor(flat)})}})}});
  write_torch_file(folder.path() / "mp_rank_00_model_states.pt", model);
  const DeepSpeedCheckpoint checkpoint({.folder = folder.path()});
  const auto masters = loaded(checkpoint.masters());
  EXPECT_TRUE(masters.at("b").equal(flat.narrow(0, 6, 4)));
  const auto states = loaded(checkpoint.optimizer_states());
  EXPECT_TRUE(
      states.at("exp_avg/a").equal(flat.add(1).narrow(0, 0, 6).view({2, 3})));
  EXPECT_EQ(states.at("step/b").item<std::int64_t>(), 4);
}

TEST(DeepSpeed, ReadsThePartsOfModelParallelRanks) {
  const testing::TemporaryFolder folder;
  write_deepspeed(
      folder.path(),
      odd_state(),
      {.stage = 0, .type = at::kFloat, .tag = "t"});
  fs::copy(
      folder.path() / "t/mp_rank_00_model_states.pt",
      folder.path() / "t/mp_rank_01_model_states.pt");
  const DeepSpeedCheckpoint second(
      {.folder = folder.path(), .model_parallel_rank = 1});
  EXPECT_EQ(second.model_parallel_size(), 2);
  EXPECT_EQ(second.weights().size(), 9U);
  EXPECT_THAT(
      error_text<CheckpointError>([&] {
        DeepSpeedCheckpoint(
            {.folder = folder.path(), .model_parallel_rank = 2});
      }),
      HasSubstr("nothing of model-parallel rank 2"));
}

TEST(DeepSpeed, ReadsTheLayersOfAPipeline) {
  const testing::TemporaryFolder folder;
  const auto place = folder.path();
  const auto layer = [&](int number, int rank) {
    write_torch_file(
        place /
            fmt::format(
                "layer_{:02}-model_{:02}-model_states.pt",
                number,
                rank),
        PythonValue::dict_of(
            {{"weight",
              PythonValue::tensor(at::full({2}, 10 * number + rank))}}));
  };
  write_torch_file(
      place / "mp_rank_00_model_states.pt",
      PythonValue::dict_of({{"module", PythonValue()}}));
  layer(0, 0);
  layer(0, 1);
  layer(3, 0);
  const auto first = loaded(read_deepspeed_layers({.folder = place}));
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first.at("3.weight")[1].item<std::int64_t>(), 30);
  EXPECT_THAT(
      error_text<CheckpointError>([&] {
        read_deepspeed_layers({.folder = place, .model_parallel_rank = 1});
      }),
      HasSubstr("layer_03-model_01-model_states.pt"));
  layer(3, 1);
  EXPECT_EQ(
      read_deepspeed_layers({.folder = place, .model_parallel_rank = 1})
          .at(1)
          .first,
      "3.weight");
}

/// A copy of a golden checkpoint, to be damaged.
class Damaged : public ::testing::Test {
 protected:
  fs::path copy(const std::string& name) {
    const fs::path place = folder_.path() / name;
    fs::copy(golden(name), place, fs::copy_options::recursive);
    return place / "global_step10";
  }
  static std::string error_of(const fs::path& tag) {
    return error_text<CheckpointError>([&] {
      const DeepSpeedCheckpoint checkpoint({.folder = tag});
      checkpoint.fp32_weights();
      checkpoint.optimizer_states();
    });
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Damaged, MissingFilesAreNamed) {
  const fs::path first = copy("deepspeed_z1_fp32_w2");
  fs::remove(first / "zero_pp_rank_0_mp_rank_00_optim_states.pt");
  EXPECT_THAT(
      error_of(first),
      AllOf(
          HasSubstr("the file of rank 0 is missing"),
          HasSubstr("zero_pp_rank_1_mp_rank_00_optim_states.pt")));
  fs::remove(first / "zero_pp_rank_1_mp_rank_00_optim_states.pt");
  EXPECT_THAT(error_of(first), HasSubstr("the optimizer's files are missing"));
  const fs::path last = copy("deepspeed_z2_bf16_w2");
  fs::remove(last / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt");
  EXPECT_THAT(
      error_of(last),
      AllOf(
          HasSubstr("bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"),
          HasSubstr("2 ranks, 1 files")));
  const fs::path model = copy("deepspeed_z3_fp32_w2");
  fs::remove(model / "zero_pp_rank_1_mp_rank_00_model_states.pt");
  EXPECT_THAT(error_of(model), HasSubstr("does not fit the optimizer's files"));
  fs::remove(model / "zero_pp_rank_0_mp_rank_00_model_states.pt");
  EXPECT_THAT(error_of(model), HasSubstr("no checkpoint of DeepSpeed's"));
}

TEST_F(Damaged, ContradictionsAreNamed) {
  const fs::path groups = copy("deepspeed_z1_bf16_w2");
  const char* rank_1 = "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt";
  fs::copy_file(
      golden("deepspeed_z1_bf16_w2_groups") / "global_step10" / rank_1,
      groups / rank_1,
      fs::copy_options::overwrite_existing);
  EXPECT_THAT(
      error_of(groups),
      AllOf(HasSubstr(rank_1), HasSubstr("2, the model has 1")));
  fs::copy_file(
      golden("deepspeed_z2_bf16_w2") / "global_step10" / rank_1,
      groups / rank_1,
      fs::copy_options::overwrite_existing);
  EXPECT_THAT(
      error_of(groups),
      AllOf(HasSubstr(rank_1), HasSubstr("2, rank 0 has 1")));
  const fs::path twice = copy("deepspeed_z2_fp16_w2");
  fs::copy_file(
      twice / "zero_pp_rank_1_mp_rank_00_optim_states.pt",
      twice / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt");
  EXPECT_THAT(error_of(twice), HasSubstr("two files of one rank"));
}

TEST_F(Damaged, TooFewNumbersAreNamed) {
  const auto with_weights = [&](const fs::path& file,
                                const char* key,
                                std::int64_t elements) {
    const PythonValue old = read_torch_file(file).at("optimizer_state_dict");
    std::vector<PythonValue::Entry> entries = old.entries();
    for (auto& [name, value] : entries) {
      if (name.text() == key) {
        value = PythonValue::list(
            {PythonValue::tensor(at::zeros({elements}, at::kFloat))});
      }
    }
    write_torch_file(
        file,
        PythonValue::dict_of(
            {{"optimizer_state_dict", PythonValue::dict(entries)}}));
  };
  const fs::path tag = copy("deepspeed_z1_fp32_w2");
  const fs::path rank_1 = tag / "zero_pp_rank_1_mp_rank_00_optim_states.pt";
  with_weights(rank_1, "single_partition_of_fp32_groups", 120);
  EXPECT_THAT(
      error_of(tag),
      AllOf(HasSubstr(rank_1.string()), HasSubstr("7 are missing")));
  with_weights(rank_1, "single_partition_of_fp32_groups", 140);
  EXPECT_THAT(error_of(tag), HasSubstr("255 of 268 are used"));
  const fs::path three = copy("deepspeed_z3_fp32_w2");
  const fs::path of_three = three / rank_1.filename();
  with_weights(of_three, "fp32_flat_groups", 128);
  EXPECT_THAT(error_of(three), HasSubstr(of_three.string()));
}

TEST_F(Damaged, TheTagStaysInTheFolder) {
  for (const char* tag : {"../x", "..", "", "a/b"}) {
    folder_.write("latest", tag);
    EXPECT_THAT(error_of(folder_.path()), HasSubstr("names no folder")) << tag;
  }
  EXPECT_THROW(
      write_deepspeed(folder_.path(), odd_state(), {.tag = "../x"}),
      ConfigError);
}

TEST_F(Damaged, ASaveHasAFolderOfItsOwn) {
  write_deepspeed(folder_.path(), odd_state(), {});
  EXPECT_THAT(
      error_text<CheckpointError>(
          [&] { write_deepspeed(folder_.path(), odd_state(), {}); }),
      HasSubstr("not empty"));
}

TEST_F(Damaged, Fuzz) {
  for (const char* name : {"deepspeed_z1_fp32_w2", "deepspeed_z3_bf16_w2"}) {
    const fs::path tag = copy(name);
    for (const auto& entry : fs::directory_iterator(tag)) {
      const fs::path file = entry.path();
      std::ifstream stream(file, std::ios::binary);
      const std::string whole{
          std::istreambuf_iterator<char>(stream),
          std::istreambuf_iterator<char>()};
      testing::fuzz(
          {.seeds = {whole},
           .pieces = {"K\x02", "K\xff", "(", "t", "N", "\x85", "}", "]"},
           .runs = 150},
          [&](const std::string& bytes) {
            std::ofstream(file, std::ios::binary) << bytes;
            const DeepSpeedCheckpoint checkpoint({.folder = tag});
            for (const NamedTensors& tensors :
                 {checkpoint.fp32_weights(),
                  checkpoint.weights(),
                  checkpoint.optimizer_states()}) {
              for (const auto& [key, tensor] : tensors) {
                tensor.load();
              }
            }
            checkpoint.groups();
            checkpoint.client_state();
          });
      std::ofstream(file, std::ios::binary) << whole;
    }
  }
}

} // namespace
} // namespace cairn::checkpoints::deepspeed_test
