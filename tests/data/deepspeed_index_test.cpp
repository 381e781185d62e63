#include "data/gpt_golden.h"
#include "support/command.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/data/gpt_datasets.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace cairn::data::deepspeed_index_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;

fs::path deepspeed_golden(const std::string& name) {
  return fs::path(CAIRN_GOLDEN_DIR "/megatron_deepspeed") / name;
}

std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with("-crc32c.txt")) { // Cairn's own, beside the others
      files[name] = read_file(entry.path(), 1 << 20);
    }
  }
  return files;
}

std::string copy_data(const TemporaryFolder& folder, const std::string& name) {
  for (const char* ending : {".bin", ".idx"}) {
    fs::copy_file(
        gpt_golden(name).string() + ending,
        (folder / name).string() + ending);
  }
  return (folder / name).string();
}

// The names come from texts that hold the prefix as it was given.
TEST(DeepSpeedIndex, TheCommandLeavesWhatMegatronDeepSpeedLeaves) {
  const TemporaryFolder folder;
  copy_data(folder, "b");
  const testing::Result result = testing::run(
      {"/bin/sh",
       "-c",
       "cd '" + folder.path().string() +
           "' && exec " CAIRN_BINARY_DIR
           "/bin/cairn data index --index-naming megatron-deepspeed "
           "--data-path b --split 70,15,15 --seq-length 8 --train-samples 150 "
           "--global-batch-size 4 --eval-iters 1 --eval-interval 30"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("files in  index-cache"));
  EXPECT_EQ(
      files_in(folder / "index-cache"),
      files_in(deepspeed_golden("index-cache")));
}

GptDataOptions blend_options(const fs::path& cache) {
  return {
      .data =
          {.blend =
               Blend{
                   {gpt_golden("a").string(),
                    gpt_golden("b").string(),
                    gpt_golden("c").string()},
                   std::vector{0.3, 0.2, 0.5}},
           .split = "80,10,10",
           .samples = {60, 16, 8},
           .blend_rounding = BlendRounding::once, // where it was made
           .cache_path = cache,
           .index_naming = IndexNaming::megatron_deepspeed},
      .sequence_length = 16,
      .seed = 5};
}

TEST(DeepSpeedIndex, BlendsAreMegatronDeepSpeeds) {
  const TemporaryFolder folder;
  const auto built = build_gpt_datasets(blend_options(folder.path()), quiet());
  const json golden =
      json::parse(read_file(deepspeed_golden("blend.json"), 1 << 20));
  for (const Split split : all_splits) {
    SCOPED_TRACE(name_of(split));
    const json& expected = golden.at(std::string(name_of(split)));
    const BlendedGptDataset& dataset = *built[split];
    const auto datasets = dataset.dataset_index().values<std::int16_t>();
    const auto samples = dataset.sample_index().values<std::int64_t>();
    EXPECT_EQ(json(datasets), expected.at("dataset_index"));
    EXPECT_EQ(json(samples), expected.at("dataset_sample_index"));
    json sizes;
    for (const GptDataset& part : dataset.datasets()) {
      sizes.push_back(part.size());
    }
    EXPECT_EQ(sizes, expected.at("sizes"));
    for (const auto& [index, name] :
         {std::pair{std::size_t{0}, "first"},
          std::pair{dataset.size() - 1, "last"}}) {
      GptSample sample;
      dataset.read(index, sample);
      sample.tokens.push_back(sample.labels.back());
      EXPECT_EQ(json(sample.tokens), expected.at(name));
    }
  }
  for (const auto& [name, bytes] : files_in(folder.path())) {
    EXPECT_THAT(name, ::testing::Not(HasSubstr("lend"))) << "not kept";
  }
}

TEST(DeepSpeedIndex, FilesBesideTheDataComeBeforeThoseOfTheFolder) {
  const TemporaryFolder folder;
  const GptDataOptions beside{
      .data =
          {.blend = Blend{{copy_data(folder, "b")}},
           .split = "1",
           .samples = {50, 0, 0},
           .index_naming = IndexNaming::megatron_deepspeed},
      .sequence_length = 8};
  GptDataOptions elsewhere = beside;
  elsewhere.data.cache_path = folder / "cache";
  const auto origin_and_folder = [&](const GptDataOptions& options) {
    const DatasetPart part = build_gpt_datasets(options, quiet()).parts.at(0);
    return std::pair{part.origin, part.file.parent_path()};
  };
  EXPECT_EQ(
      origin_and_folder(elsewhere),
      std::pair(IndexOrigin::built, folder / "cache"));
  EXPECT_EQ(
      origin_and_folder(elsewhere),
      std::pair(IndexOrigin::file, folder / "cache"));
  EXPECT_EQ(
      origin_and_folder(beside),
      std::pair(IndexOrigin::built, folder / "index-cache"));
  EXPECT_EQ(
      origin_and_folder(elsewhere),
      std::pair(IndexOrigin::file, folder / "index-cache"));
}

TEST(DeepSpeedIndex, RefusesWhatMegatronDeepSpeedDoesNotHave) {
  const TemporaryFolder folder;
  const auto expect = [&](const GptDataOptions& options, const char* text) {
    EXPECT_THAT(
        [&] { build_gpt_datasets(options, quiet()); },
        ThrowsMessage<ConfigError>(HasSubstr(text)));
  };
  GptDataOptions options = blend_options(folder.path());
  options.data.blend->weights.reset();
  expect(options, "no blends without weights");
  options.data.blend = Blend{{gpt_golden("a").string()}};
  options.data.samples[0].reset();
  expect(options, "after the number of samples");
  options = blend_options(folder.path());
  options.extra_token = false;
  expect(options, "no samples without an extra token");
}

} // namespace
} // namespace cairn::data::deepspeed_index_test
