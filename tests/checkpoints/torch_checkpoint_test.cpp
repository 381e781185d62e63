#include "support/error_text.h"
#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <cairn/checkpoints/torch_file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::checkpoints::torch_checkpoint_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    names.push_back(name);
  }
  return names;
}

LazyTensor lazy(const at::Tensor& tensor) {
  return {tensor.scalar_type(), tensor.sizes().vec(), [=] { return tensor; }};
}

PythonValue options(double lr) {
  return PythonValue::dict_of({{"lr", PythonValue::real(lr)}});
}

/// A matrix and a vector of each of two layers, in two groups by dimension.
TorchCheckpoint two_groups() {
  TorchCheckpoint result{
      .groups = {
          {.names = {"a.weight", "b.weight"}, .options = options(0.1)},
          {.names = {"a.bias", "b.bias"}, .options = options(0.2)}}};
  float value = 1;
  for (const char* name : {"a.weight", "a.bias", "b.weight", "b.bias"}) {
    const at::Tensor tensor = std::string(name).ends_with("weight")
        ? at::full({3, 3}, value)
        : at::full({3}, value);
    result.weights.emplace_back(name, lazy(tensor));
    result.optimizer_states.emplace_back(
        std::string("exp_avg/") + name,
        lazy(tensor.add(10)));
    ++value;
  }
  return result;
}

TEST(TorchCheckpoint, ReadsWhatATrainingScriptSaved) {
  const TorchCheckpoint file = read_torch_checkpoint(
      std::filesystem::path(CAIRN_GOLDEN_DIR) /
      "checkpoints/torch_optimizer.pt");
  EXPECT_EQ(file.weights.size(), 7U);
  EXPECT_EQ(file.rest.at("step").integer(), 1);
  ASSERT_EQ(file.groups.size(), 1U);
  EXPECT_THAT(
      file.groups[0].names,
      ElementsAre("0.weight", "0.bias", "1.weight", "1.bias"));
  EXPECT_EQ(file.groups[0].options.at("lr").real(), 0.001);
  ASSERT_EQ(file.optimizer_states.size(), 12U);
  EXPECT_EQ(file.optimizer_states.back().first, "exp_avg_sq/1.bias");
  const auto& [name, tensor] = file.optimizer_states[10];
  EXPECT_EQ(name, "exp_avg/1.bias");
  EXPECT_TRUE(tensor.load().equal(at::full({3}, 0.5F)));
}

TEST(TorchCheckpoint, ReadsWhatItWroteWithGroupsByShape) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "x.pt";
  const TorchCheckpoint saved = two_groups();
  write_torch_checkpoint(path, saved);
  const TorchCheckpoint again = read_torch_checkpoint(path);
  ASSERT_EQ(again.groups.size(), 2U);
  EXPECT_EQ(again.groups[0].names, saved.groups[0].names);
  EXPECT_EQ(again.groups[1].names, saved.groups[1].names);
  EXPECT_EQ(again.groups[1].options.at("lr").real(), 0.2);
  EXPECT_THAT(
      names_of(again.optimizer_states),
      ElementsAre(
          "exp_avg/a.weight",
          "exp_avg/b.weight",
          "exp_avg/a.bias",
          "exp_avg/b.bias"));
  EXPECT_TRUE(
      again.optimizer_states[3].second.load().equal(at::full({3}, 14.0F)));
}

TEST(TorchCheckpoint, AsksForTheOrderWhereShapesDoNotTell) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "x.pt";
  TorchCheckpoint saved = two_groups();
  saved.groups = {
      {.names = {"b.weight", "b.bias"}},
      {.names = {"a.weight", "a.bias"}}};
  write_torch_checkpoint(path, saved);
  EXPECT_THAT(
      error_text<CheckpointError>([&] { read_torch_checkpoint(path); }),
      HasSubstr("a.weight fits in 2 groups"));
  const TorchCheckpoint again =
      read_torch_checkpoint(path, {"b.weight", "b.bias", "a.weight", "a.bias"});
  EXPECT_EQ(again.groups[0].names, saved.groups[0].names);
  EXPECT_TRUE(
      again.optimizer_states[0].second.load().equal(at::full({3, 3}, 13.0F)));
  EXPECT_THAT(
      error_text<CheckpointError>(
          [&] { read_torch_checkpoint(path, {"a.weight"}); }),
      HasSubstr("1 names are given, the optimizer has 4 parameters"));
}

TEST(TorchCheckpoint, KeepsTiesAndTheRest) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "x.pt";
  const LazyTensor weight = lazy(at::ones({2, 2}));
  write_torch_checkpoint(
      path,
      {.weights = {{"embedding", weight}, {"head", weight}},
       .ties = {{"head", "embedding"}},
       .rest = PythonValue::dict_of({{"epoch", PythonValue::integer(3)}})});
  const TorchCheckpoint again = read_torch_checkpoint(path);
  EXPECT_THAT(again.ties, ElementsAre(Tie{"head", "embedding"}));
  EXPECT_EQ(again.rest.at("epoch").integer(), 3);
  EXPECT_TRUE(again.groups.empty());
}

TEST(TorchCheckpoint, ReadsAStateDictAlone) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "x.pt";
  write_torch_file(
      path,
      PythonValue::dict_of({{"weight", PythonValue::tensor(at::ones({2}))}}));
  EXPECT_THAT(
      names_of(read_torch_checkpoint(path).weights),
      ElementsAre("weight"));
  write_torch_file(
      path,
      PythonValue::dict_of({{"epoch", PythonValue::integer(2)}}));
  EXPECT_THAT(
      error_text<CheckpointError>([&] { read_torch_checkpoint(path); }),
      HasSubstr("no model in it"));
}

} // namespace
} // namespace cairn::checkpoints::torch_checkpoint_test
