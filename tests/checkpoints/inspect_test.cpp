#include "checkpoints/inspect/value_difference.h"
#include "checkpoints/internal/checkpoint_difference.h"
#include "checkpoints/internal/list_checkpoints.h"
#include "checkpoints/internal/tensor_summary.h"
#include "checkpoints/save_slices.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <cairn/checkpoints/safetensors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace cairn::checkpoints::inspect_test {
namespace {

namespace fs = std::filesystem;
using cairn::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

const fs::path golden = CAIRN_GOLDEN_DIR "/checkpoints";
const fs::path models = CAIRN_GOLDEN_DIR "/models";

TEST(TensorSummary, CountsWhatIsNotFinite) {
  const TensorSummary plain = summarize(at::tensor({3.0F, -4.0F}));
  EXPECT_EQ(plain.norm, 5);
  EXPECT_EQ(plain.least, -4);
  EXPECT_EQ(plain.most, 3);
  EXPECT_TRUE(plain.finite());

  const TensorSummary broken =
      summarize(at::tensor({nan, 3.0, infinity, -infinity, 4.0}));
  EXPECT_EQ(broken.norm, 5);
  EXPECT_EQ(broken.least, 3);
  EXPECT_EQ(broken.nans, 1);
  EXPECT_EQ(broken.infinities, 2);

  EXPECT_EQ(summarize(at::full({3}, nan)).norm, 0);
}

TEST(TensorSummary, TakesEveryTypeAndSize) {
  for (const at::ScalarType type :
       {at::kDouble,
        at::kHalf,
        at::kBFloat16,
        at::kLong,
        at::kInt,
        at::kByte,
        at::kUInt16,
        at::kUInt64,
        at::kBool,
        at::kFloat8_e4m3fn,
        at::kFloat8_e5m2}) {
    const TensorSummary summary =
        summarize(at::ones({2, 2}, at::kFloat).to(type));
    EXPECT_EQ(summary.norm, 2) << c10::toString(type);
    EXPECT_EQ(summary.least, 1);
  }
  EXPECT_EQ(summarize(at::empty({0, 3})).norm, 0);
  EXPECT_EQ(
      summarize(at::complex(at::tensor({3.0F}), at::tensor({4.0F}))).norm,
      5);
  // The tensor takes more than one portion, and is transposed.
  const at::Tensor large = at::ones({1500, 1000}).t();
  EXPECT_NEAR(summarize(large).norm, std::sqrt(1.5e6), 1e-9);
}

TEST(ValueDifference, SaysHowManyAndHowFar) {
  const at::Tensor one = at::tensor({3.0, 4.0, nan, infinity});
  EXPECT_TRUE(compare_values(one, one.clone(), 0).same());

  const at::Tensor near = at::tensor({3.0, 4.5, nan, infinity});
  const ValueDifference found = compare_values(one, near, 0);
  EXPECT_EQ(found.elements, 4);
  EXPECT_EQ(found.differing, 1);
  EXPECT_EQ(found.largest, 0.5);
  EXPECT_TRUE(compare_values(one, near, 0.5).same());
  EXPECT_FALSE(compare_values(one, near, 0.4).same());

  EXPECT_EQ(
      compare_values(at::tensor({3.0, 4.0}), at::tensor({3.0, 4.5}), 0)
          .relative,
      0.1);
  const ValueDifference lost =
      compare_values(at::tensor({1.0, 2.0}), at::tensor({nan, 2.0}), 10);
  EXPECT_EQ(lost.differing, 1);
  EXPECT_EQ(lost.largest, infinity);
}

TEST(ValueDifference, SeesThroughTypes) {
  const at::Tensor halves = at::tensor({0.5F, 1.5F});
  EXPECT_TRUE(compare_values(halves, halves.to(at::kBFloat16), 0).same());
  // The values differ by one where doubles have no odd numbers.
  const std::int64_t wide = std::int64_t{1} << 60;
  EXPECT_EQ(
      compare_values(at::tensor({wide}), at::tensor({wide + 1}), 0).differing,
      1);
}

/// Saves two steps, the newer one by two writers.
void save_run(const fs::path& folder) {
  save(folder, "global_step1", {{{whole("weight/a", at::ones({4}))}}}, 1, 10);
  const at::Tensor values = at::arange(4, at::kFloat);
  const auto half = [&](std::int64_t begin) {
    return TensorSlice{
        .name = "weight/a",
        .shape = {4},
        .begin = begin,
        .values = values.slice(0, begin, begin + 2)};
  };
  save(
      folder,
      "global_step2",
      {{{half(0), whole("exp_avg/a", at::zeros({4}))}}, {{half(2)}}},
      2,
      20);
}

void cut_off(const fs::path& file) {
  fs::resize_file(file, fs::file_size(file) - 1);
}

TEST(ListCheckpoints, SaysWhichOneLoads) {
  const TemporaryFolder folder;
  save_run(folder.path());
  fs::create_directories(folder / ".global_step3.0.partial");
  fs::create_directories(folder / "lost");
  save_run(folder / "lost");
  fs::remove(folder / "lost" / "global_step2" / manifest_name);
  fs::rename(folder / "lost" / "global_step2", folder / "headless");
  fs::remove_all(folder / "lost");

  CheckpointList list = list_checkpoints(folder.path());
  ASSERT_THAT(list.checkpoints, SizeIs(3));
  EXPECT_EQ(list.checkpoints[0].tag, "global_step1");
  EXPECT_EQ(list.checkpoints[1].tag, "global_step2");
  EXPECT_EQ(list.checkpoints[1].step, 2);
  EXPECT_EQ(list.checkpoints[1].files, 2);
  EXPECT_THAT(list.checkpoints[1].problem, IsEmpty());
  EXPECT_EQ(list.checkpoints[2].tag, "headless");
  EXPECT_THAT(list.checkpoints[2].problem, HasSubstr("manifest.json"));
  EXPECT_EQ(list.latest, "global_step2");
  EXPECT_EQ(list.loaded, "global_step2");
  EXPECT_THAT(list.remains, ElementsAre(".global_step3.0.partial"));

  cut_off(folder / "global_step2" / "rank-1.safetensors");
  list = list_checkpoints(folder.path());
  EXPECT_THAT(list.checkpoints[1].problem, HasSubstr("rank-1.safetensors"));
  EXPECT_EQ(list.latest, "global_step2");
  EXPECT_EQ(list.loaded, "global_step1");
  EXPECT_THAT(
      view_checkpoint(folder.path()).notes,
      ElementsAre(HasSubstr("global_step2 is not complete")));

  EXPECT_THAT(list_checkpoints(folder / "global_step1").checkpoints, SizeIs(1));
}

TEST(ListCheckpoints, KnowsOthersFolders) {
  const CheckpointList deepspeed =
      list_checkpoints(golden / "deepspeed_z2_bf16_w2");
  ASSERT_THAT(deepspeed.checkpoints, SizeIs(1));
  EXPECT_EQ(deepspeed.checkpoints[0].format, CheckpointFormat::deepspeed);
  EXPECT_EQ(deepspeed.checkpoints[0].step, 10);
  EXPECT_EQ(deepspeed.checkpoints[0].files, 3);
  EXPECT_EQ(deepspeed.loaded, "global_step10");

  const CheckpointList megatron = list_checkpoints(golden / "megatron_tp2");
  ASSERT_THAT(megatron.checkpoints, SizeIs(1));
  EXPECT_EQ(megatron.checkpoints[0].format, CheckpointFormat::megatron);
  EXPECT_EQ(megatron.checkpoints[0].step, 10);
  EXPECT_EQ(megatron.latest, "iter_0000010");
  EXPECT_EQ(megatron.loaded, "iter_0000010");

  const CheckpointList release =
      list_checkpoints(golden / "megatron_release_fp16");
  EXPECT_EQ(release.loaded, "release");

  EXPECT_THAT(list_checkpoints(models).checkpoints, SizeIs(9));
}

TEST(ListCheckpoints, NamesWhatDeepSpeedLost) {
  const TemporaryFolder folder;
  fs::copy(
      golden / "deepspeed_z2_bf16_w2",
      folder.path(),
      fs::copy_options::recursive);
  fs::remove(
      folder / "global_step10" /
      "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt");
  const CheckpointList list = list_checkpoints(folder.path());
  ASSERT_THAT(list.checkpoints, SizeIs(1));
  EXPECT_THAT(list.checkpoints[0].problem, HasSubstr("rank 0"));
  EXPECT_THAT(list.loaded, IsEmpty());
}

TEST(CheckpointView, HasTheExpertsOfDeepSpeed) {
  const CheckpointView view =
      view_checkpoint(CAIRN_GOLDEN_DIR "/checkpoints_core/moe_mds/zero1");
  EXPECT_EQ(view.state.at("step"), 5);
  EXPECT_TRUE(std::ranges::any_of(view.weights, [](const auto& named) {
    return named.first == "layers.1.mlp.experts.up.weight" &&
        named.second.shape == std::vector<std::int64_t>{4, 36, 16};
  }));
}

TEST(CheckpointView, SaysWhatANativeOneHolds) {
  const TemporaryFolder folder;
  save_run(folder.path());
  const CheckpointView view = view_checkpoint(folder.path());
  EXPECT_EQ(view.format, CheckpointFormat::native);
  EXPECT_EQ(view.place, folder / "global_step2");
  EXPECT_EQ(view.state["step"], 2);
  ASSERT_THAT(view.weights, SizeIs(1));
  EXPECT_EQ(view.weights[0].first, "a");
  EXPECT_TRUE(
      at::equal(view.weights[0].second.load(), at::arange(4, at::kFloat)));
  EXPECT_EQ(view.slices.at("a"), 2);
  ASSERT_THAT(view.states, SizeIs(1));
  EXPECT_EQ(view.states[0].first, "exp_avg/a");

  EXPECT_EQ(view_checkpoint(folder.path(), "global_step1").state["step"], 1);
  EXPECT_THAT(
      error_text<CheckpointError>(
          [&] { view_checkpoint(folder.path(), "global_step7"); }),
      HasSubstr("global_step7"));
  EXPECT_THAT(
      error_text([&] { view_checkpoint(folder.path(), "../x"); }),
      HasSubstr("plain name"));
}

TEST(CheckpointView, OpensWhateverThereIs) {
  for (const auto& entry : fs::directory_iterator(golden)) {
    if (entry.path().extension() == ".json" ||
        entry.path().extension() == ".md") {
      continue;
    }
    SCOPED_TRACE(entry.path());
    const CheckpointView view = view_checkpoint(entry.path());
    EXPECT_FALSE(view.weights.empty());
    for (const auto* tensors : {&view.weights, &view.states}) {
      for (const auto& [name, tensor] : *tensors) {
        const at::Tensor loaded = tensor.load();
        EXPECT_EQ(loaded.sizes().vec(), tensor.shape) << name;
        summarize(loaded);
      }
    }
  }
}

TEST(CheckpointDifference, ComparesAcrossFormats) {
  const auto difference = [](const fs::path& one, const fs::path& other) {
    const auto [a, b] = comparable_views(one, other);
    return compare(a, b, {.weights_only = true});
  };
  // The cut makes no difference.
  const CheckpointDifference cuts =
      difference(golden / "megatron_tp1", golden / "megatron_tp2");
  EXPECT_TRUE(cuts.same());
  EXPECT_GT(cuts.compared, 10);
  // The names make no difference.
  const CheckpointDifference names =
      difference(models / "gpt2", golden / "megatron_tp1");
  EXPECT_TRUE(names.same());
  EXPECT_EQ(names.compared, cuts.compared);
  for (const char* name :
       {"deepspeed_z1_fp32_w2",
        "deepspeed_z2_bf16_w2",
        "deepspeed_z3_bf16_w2"}) {
    const CheckpointDifference joined =
        difference(golden / name, golden / name / "fp32.safetensors");
    EXPECT_TRUE(joined.same()) << name;
    EXPECT_GT(joined.compared, 2);
  }
}

TEST(CheckpointDifference, NamesEveryDifference) {
  const TemporaryFolder folder;
  const auto write = [&](const char* name,
                         const std::map<std::string, at::Tensor>& tensors) {
    write_safetensors(folder / name, tensors);
    return view_checkpoint(folder / name);
  };
  const CheckpointView one = write(
      "one",
      {{"gone", at::ones({2})},
       {"same", at::ones({2})},
       {"shape", at::ones({2})},
       {"type", at::ones({2})},
       {"values", at::ones({2})}});
  const CheckpointView other = write(
      "other",
      {{"new", at::ones({2})},
       {"same", at::ones({2})},
       {"shape", at::ones({3})},
       {"type", at::ones({2}, at::kHalf)},
       {"values", at::tensor({1.0F, 1.25F})}});
  const CheckpointDifference found = compare(one, other);
  EXPECT_EQ(found.compared, 4);
  std::vector<std::string> names;
  for (const TensorDifference& difference : found.tensors) {
    names.push_back(difference.name);
  }
  EXPECT_THAT(names, ElementsAre("gone", "shape", "type", "values", "new"));
  EXPECT_EQ(found.tensors[3].values->differing, 1);
  EXPECT_EQ(found.tensors[3].values->largest, 0.25);
  EXPECT_FALSE(found.tensors[0].other);
  EXPECT_FALSE(found.tensors[4].one);

  EXPECT_THAT(
      compare(one, other, {.tolerance = 0.3, .ignore_types = true}).tensors,
      SizeIs(3));
}

TEST(CheckpointDifference, TiedNamesAreTheTensorTheyStandFor) {
  CheckpointView one;
  const LazyTensor tensor{at::kFloat, {2}, [] { return at::ones({2}); }};
  one.weights = {{"embedding", tensor}};
  one.ties = {{"head", "embedding"}};
  CheckpointView other;
  other.weights = {{"embedding", tensor}, {"head", tensor}};
  EXPECT_TRUE(compare(one, other).same());
  EXPECT_TRUE(compare(other, one).same());
  one.ties.clear();
  EXPECT_FALSE(compare(one, other).same());
}

TEST(CheckpointDifference, ComparesStates) {
  const TemporaryFolder folder;
  save_run(folder.path());
  const CheckpointView one = view_checkpoint(folder.path(), "global_step1");
  const CheckpointView two = view_checkpoint(folder.path(), "global_step2");
  const CheckpointDifference found = compare(one, two);
  ASSERT_THAT(found.state, SizeIs(1));
  EXPECT_EQ(found.state[0].name, "step");
  EXPECT_EQ(*found.state[0].one, 1);
  EXPECT_EQ(*found.state[0].other, 2);
  EXPECT_THAT(found.tensors, SizeIs(2));
  EXPECT_THAT(compare(one, two, {.weights_only = true}).tensors, SizeIs(1));
  EXPECT_TRUE(compare(two, two).same());
}

} // namespace
} // namespace cairn::checkpoints::inspect_test
