#include <cairn/data/masked_datasets.h>

#include "data/masked_golden.h"
#include "data/samples/blend_index.h"
#include "data/samples/masked_index_files.h"
#include "support/command.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace cairn::data::masked_datasets_test {
namespace {

namespace fs = std::filesystem;
using namespace fixtures;
using cairn::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Logger quiet() {
  return Logger({.least = LogLevel::error});
}

std::string golden_prefix() {
  return golden_sentences()->prefix().string();
}

DataSelection selection(
    std::vector<std::string> prefixes,
    const fs::path& cache) {
  return {
      .blend = Blend{std::move(prefixes)},
      .split = "60,40,0",
      .samples = {60, 20, 0},
      .cache_path = cache};
}

TEST(MaskedDatasets, ASingleOneIsMegatrons) {
  const TemporaryFolder folder;
  const json test = golden_cases("bert.json").at(0);
  const json& config = test.at("config");
  DataSelection data = selection({golden_prefix()}, folder.path());
  data.split = config.at("split");
  data.samples = {
      samples_asked(test, "train"),
      samples_asked(test, "valid"),
      samples_asked(test, "test")};
  const BertOptions options{
      .seed = config.at("random_seed"),
      .sequence_length = config.at("sequence_length"),
      .classification_head = config.at("classification_head"),
      .short_sequence_probability = config.at("short_sequence_probability"),
      .masking = masking_options(config)};
  const BertDatasets built =
      build_masked_datasets(data, options, golden_vocabulary(), quiet());
  const BertDatasets again =
      build_masked_datasets(data, options, golden_vocabulary(), quiet());
  EXPECT_EQ(again.checksum(), built.checksum());
  EXPECT_EQ(again.parts.at(0).origin, IndexOrigin::file);
  int samples = 0;
  for (const Split split : all_splits) {
    const json& expected = test.at("splits").at(std::string(name_of(split)));
    ASSERT_EQ(built[split].has_value(), !expected.is_null());
    if (expected.is_null()) {
      continue;
    }
    expect_index(built[split]->datasets().at(0).index(), expected);
    BertSample sample;
    for (const json& one : expected.at("samples")) {
      built[split]->read(one.at("index"), sample);
      EXPECT_EQ(sample.text, one.at("text").get<Tokens>());
      ++samples;
    }
  }
  EXPECT_GT(samples, 0);
}

const Tokens& text_of(const BertSample& sample) {
  return sample.text;
}
const Tokens& text_of(const T5Sample& sample) {
  return sample.encoder_text;
}

template <typename Sample, typename Options>
void expect_blend(const json& test, const Options& options) {
  const TemporaryFolder folder;
  DataSelection data = selection(
      {golden_prefix(),
       CAIRN_GOLDEN_DIR "/indexed/mds_bert_split_mmap_text_sentence"},
      folder.path());
  data.blend->weights = test.at("weights").get<std::vector<double>>();
  data.blend_rounding = BlendRounding::once; // where these were made
  const auto built =
      build_masked_datasets(data, options, golden_vocabulary(), quiet());
  EXPECT_FALSE(built[Split::test]);
  for (const Split split : {Split::train, Split::valid}) {
    const json& expected = test.at("splits").at(std::string(name_of(split)));
    const auto& blend = *built[split];
    const auto& turns = expected.at("dataset_index");
    ASSERT_EQ(blend.size(), turns.size());
    for (std::size_t i = 0; i < blend.size(); ++i) {
      const auto place = blend.locate(i);
      ASSERT_EQ(place.dataset, turns.at(i).get<std::size_t>()) << i;
      ASSERT_EQ(
          place.sample,
          expected.at("dataset_sample_index").at(i).get<std::size_t>())
          << i;
    }
    for (std::size_t part = 0; part < 2; ++part) {
      EXPECT_EQ(
          blend.datasets()[part].size(),
          expected.at("parts").at(part).get<std::size_t>());
    }
    Sample sample;
    for (const json& one : expected.at("samples")) {
      blend.read(one.at("index"), sample);
      EXPECT_EQ(text_of(sample), one.at("text").get<Tokens>());
    }
  }
}

TEST(MaskedDatasets, BlendsAreMegatrons) {
  for (const json& test : golden_cases("blend.json")) {
    const json& config = test.at("config");
    if (test.at("kind") == "bert") {
      expect_blend<BertSample>(
          test,
          BertOptions{
              .seed = config.at("random_seed"),
              .sequence_length = config.at("sequence_length"),
              .classification_head = config.at("classification_head"),
              .masking = masking_options(config)});
    } else {
      expect_blend<T5Sample>(
          test,
          T5Options{
              .seed = config.at("random_seed"),
              .sequence_length = config.at("sequence_length"),
              .decoder_sequence_length = config.at("sequence_length_decoder"),
              .masking = masking_options(config)});
    }
  }
}

TEST(MaskedDatasets, BlendsTakeTurnsAsGptDataDoes) {
  const TemporaryFolder folder;
  for (const char* ending : {".bin", ".idx"}) {
    fs::copy_file(
        golden_prefix() + ending,
        (folder / "more").string() + ending);
  }
  DataSelection data = selection(
      {golden_prefix(), (folder / "more").string()},
      folder / "cache");
  data.blend->weights = {0.25, 0.75};
  const T5Options options{.sequence_length = 64, .decoder_sequence_length = 64};
  const T5Datasets built =
      build_masked_datasets(data, options, golden_vocabulary(), quiet());
  const auto& train = *built[Split::train];
  EXPECT_EQ(train.size(), 60);
  EXPECT_EQ(built[Split::valid]->size(), 20);
  const auto expected =
      build_blend_index(std::vector{0.25, 0.75}, 60, native_blend_rounding());
  T5Sample blended;
  T5Sample direct;
  for (std::size_t i = 0; i < train.size(); ++i) {
    const auto dataset = static_cast<std::size_t>(expected.datasets[i]);
    train.read(i, blended);
    train.datasets()[dataset].read(
        static_cast<std::size_t>(expected.samples[i]),
        direct);
    ASSERT_EQ(blended.encoder_text, direct.encoder_text) << i;
  }
  // Megatron asks for these numbers: 15 and 45, and half a percent more.
  EXPECT_GE(train.datasets()[0].size(), 16);
  EXPECT_GE(train.datasets()[1].size(), 46);
  int blends = 0;
  for (const auto& entry : fs::directory_iterator(folder / "cache")) {
    blends += entry.path().string().find("BlendedDataset") != std::string::npos;
  }
  EXPECT_EQ(blends, 2 * 4); // two arrays, description, checksums per split

  data.blend->weights.reset(); // by size, and everything once
  data.samples = {std::nullopt, 0, 0};
  const MaskedIndices all = build_masked_indices(data, options, quiet());
  EXPECT_EQ(
      all[Split::train]->size(),
      2 * all[Split::train]->datasets()[0].size());
  EXPECT_FALSE(all[Split::valid]);
}

TEST(MaskedDatasets, RefusesWhatWouldNotCount) {
  const TemporaryFolder folder;
  DataSelection data = selection({golden_prefix()}, folder.path());
  const auto expect = [&](const BertOptions& options, const char* text) {
    EXPECT_THAT(
        [&] { build_masked_indices(data, options, quiet()); },
        ThrowsMessage<ConfigError>(HasSubstr(text)));
  };
  expect({.samples = 5}, "given twice");
  data.index_naming = IndexNaming::megatron_deepspeed;
  expect({}, "only index files of GPT data");
}

cairn::testing::Result data_index(cairn::testing::Words flags) {
  cairn::testing::Words words{CAIRN_BINARY_DIR "/bin/cairn", "data", "index"};
  words.insert(words.end(), flags.begin(), flags.end());
  return cairn::testing::run(words);
}

TEST(DataIndex, BuildsWhatBertAndT5WillRead) {
  const TemporaryFolder folder;
  const auto sentences = golden_sentences();
  const auto shares = SplitShares::parse("60,40,0");
  IndexCache cache(folder.path(), quiet());
  for (const std::string kind : {"bert", "t5"}) {
    const auto result = data_index(
        {"--dataset-type",
         kind,
         "--data-path",
         golden_prefix(),
         "--split",
         "60,40,0",
         "--seq-length",
         "64",
         "--train-samples",
         "60",
         "--global-batch-size",
         "10",
         "--eval-iters",
         "2",
         "--short-seq-prob",
         "0.2",
         kind == "bert" ? "--mask-prob=0.2" : "--decoder-seq-length=32",
         "--data-cache-path",
         folder.path().string()});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(
        result.out,
        AllOf(
            ContainsRegex("train +[0-9]+ +[0-9]+ +- +[0-9]+ .* built"),
            ContainsRegex("train +[0-9]+ samples\n"),
            ContainsRegex("valid +[0-9]+ samples\n")));
  }
  // A run with the same options finds the files.
  BertOptions bert{
      .sequence_length = 64,
      .short_sequence_probability = 0.2,
      .samples = 60};
  bert.masking.probability = 0.2;
  const auto found =
      open_masked_index(cache, *sentences, Split::train, shares, bert);
  EXPECT_EQ(found.origin, IndexOrigin::file);
  const T5Options t5{
      .sequence_length = 64,
      .decoder_sequence_length = 32,
      .short_sequence_probability = 0.2,
      .samples = 20};
  EXPECT_EQ(
      open_masked_index(cache, *sentences, Split::valid, shares, t5).origin,
      IndexOrigin::file);
}

TEST(DataIndex, FlagsOfAnotherKindAreRefused) {
  for (const cairn::testing::Words& flags : std::vector<cairn::testing::Words>{
           {"--mask-prob", "0.2"},
           {"--dataset-type", "t5", "--bert-no-binary-head"},
           {"--dataset-type", "bert", "--decoder-seq-length", "32"},
           {"--dataset-type", "bert", "--index-naming", "megatron"}}) {
    cairn::testing::Words all{
        "--data-path",
        golden_prefix(),
        "--seq-length",
        "64"};
    all.insert(all.end(), flags.begin(), flags.end());
    const auto result = data_index(all);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("changes nothing with --dataset-type"));
  }
}

} // namespace
} // namespace cairn::data::masked_datasets_test
