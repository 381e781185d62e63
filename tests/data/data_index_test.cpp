#include "data/gpt_golden.h"
#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace cairn::data::data_index_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::Result;
using testing::TemporaryFolder;
using testing::Words;

Result data_index(Words flags) {
  Words words{CAIRN_BINARY_DIR "/bin/cairn", "data", "index"};
  words.insert(words.end(), flags.begin(), flags.end());
  return testing::run(words);
}

TEST(DataIndex, BuildsOnceAndSaysWhat) {
  const TemporaryFolder folder;
  const std::string blend =
      "0.3 " + gpt_golden("a").string() + " 0.7 " + gpt_golden("b").string();
  const Words flags{
      "--data-path",
      blend,
      "--split",
      "80,10,10",
      "--seq_length=16",
      "--train-samples",
      "60",
      "--global-batch-size",
      "8",
      "--eval-iters",
      "1",
      "--data-cache-path",
      folder.path().string()};
  const Result first = data_index(flags);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(
      first.out,
      AllOf(
          ContainsRegex("gpt_dataset/a +train +960 +7597 +1 +474 .* built"),
          ContainsRegex("gpt_dataset/b +train +24 +689 +1 +43 .* built"),
          HasSubstr("train     60 samples, blended from 2"),
          HasSubstr("valid     9 samples, blended from 2"),
          HasSubstr("files in  " + folder.path().string())));
  const auto files = std::distance(fs::directory_iterator(folder.path()), {});
  EXPECT_EQ(files, 3 * (2 * 5 + 4)); // each set has its checksums
  const Result second = data_index(flags);
  EXPECT_THAT(second.out, ContainsRegex("gpt_dataset/a +train .* was there"));
  EXPECT_EQ(
      second.out.substr(second.out.find("checksum")),
      first.out.substr(first.out.find("checksum")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), files);
}

TEST(DataIndex, TrainingAloneNeedsNoBatchSize) {
  const TemporaryFolder folder;
  const Result result = data_index(
      {"--data-path",
       gpt_golden("a").string(),
       "--split",
       "1,0,0",
       "--seq-length",
       "16",
       "--train-samples",
       "60",
       "--data-cache-path",
       folder.path().string()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("train "));
}

// Megatron writes such indices as well: a row of zeros, and an order of
// nothing.
TEST(DataIndex, SaysWhichSplitIsTooShortForASample) {
  const TemporaryFolder folder;
  const Result result = data_index(
      {"--data-path",
       gpt_golden("a").string(),
       "--split",
       "98,2,0",
       "--seq-length",
       "1000",
       "--data-cache-path",
       folder.path().string()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(
          HasSubstr("train     8 samples\n"),
          HasSubstr("valid     0 samples: too few tokens for one")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2 * 5);
}

TEST(DataIndex, FailsWhenFilesCannotBeKept) {
  const TemporaryFolder folder;
  const Result result = data_index(
      {"--data-path",
       gpt_golden("a").string(),
       "--split",
       "1,0,0",
       "--seq-length",
       "16",
       "--data-cache-path",
       "/dev/null/cache"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("not all index files could be kept"));

  // The first of the files fits under the limit, a later one does not.
  const Result half = testing::run(
      {"/bin/bash",
       "-c",
       "ulimit -f 8; exec " CAIRN_BINARY_DIR "/bin/cairn data index "
       "--data-path '" +
           gpt_golden("a").string() +
           "' --split 1,0,0 --seq-length 2 --data-cache-path '" +
           folder.path().string() + "'"});
  EXPECT_EQ(half.code, 1) << half.err;
  EXPECT_THAT(half.err, HasSubstr("not all index files could be kept"));
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    EXPECT_EQ(entry.path().extension(), ".lock") << entry.path();
  }
}

TEST(DataIndex, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const std::string a = gpt_golden("a").string();
  const auto expect = [&](Words flags, int code, const std::string& text) {
    flags.insert(flags.end(), {"--data-cache-path", folder.path().string()});
    const Result result = data_index(flags);
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_EQ(result.out, "");
  };
  expect({"--data-path", a}, 2, "--seq-length");
  expect({"--seq-length", "16"}, 2, "no data is given");
  expect({"--data-path", a, "--seq-length", "1"}, 1, "at least 2");
  expect(
      {"--data-path", a, "--seq-length", "16", "--split", "x"},
      2,
      "\"x\" is no split");
  expect(
      {"--data-path", a, "--seq-length", "16", "--split", "9999,0,0.1"},
      1,
      "a (test): no document falls to the split");
  expect(
      {"--data-path", a + " 0.3", "--seq-length", "16"},
      2,
      "weights and datasets do not take turns");
  expect(
      {"--data-path", "0.3 " + a, "--seq-length", "16"},
      2,
      "needs the number of samples");
  expect(
      {"--data-path", a, "--seq-length", "16", "--train-iters", "5"},
      2,
      "--global-batch-size is needed");
  for (const char* flag :
       {"--global-batch-size", "--eval-iters", "--eval-interval"}) {
    expect(
        {"--data-path", a, "--seq-length", "16", flag, "5"},
        2,
        std::string(flag) + " changes nothing without the length of the run");
  }
  expect(
      {"--data-path", a, "--seq-length", "100000", "--split", "1,0,0"},
      1,
      "too short for a single sample (");
  expect({"--data-path", "/no/such", "--seq-length", "16"}, 1, "/no/such.idx");
  expect(
      {"--data-path", a, "--seq-length", "16", "--sed", "5"},
      2,
      "did you mean --seed?");
}

} // namespace
} // namespace cairn::data::data_index_test
