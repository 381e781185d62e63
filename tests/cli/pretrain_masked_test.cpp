#include "support/command.h"
#include "support/temporary_folder.h"

#include <cairn/base/file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

// `cairn pretrain bert` and `t5`, from stories to a checkpoint.

namespace cairn::cli::pretrain_masked_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Result;
using testing::run;
using ::testing::SizeIs;
using testing::TemporaryFolder;
using testing::Words;

class PretrainMasked : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    const std::string stories = path("stories.jsonl");
    const Result made = run(
        {program(),
         "data",
         "sample-corpus",
         "--output",
         stories,
         "--size",
         "200KB",
         "--workers",
         "1"});
    ASSERT_EQ(made.code, 0) << made.err;
    Words preprocess{
        program(),
        "preprocess",
        "--input",
        stories,
        "--output-prefix",
        path("masked"),
        "--split-sentences"};
    append(preprocess, vocabulary());
    const Result tokens = run(preprocess);
    ASSERT_EQ(tokens.code, 0) << tokens.err;
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string program() { return CAIRN_BINARY_DIR "/bin/cairn"; }
  static std::string path(const std::string& name) {
    return (folder_->path() / name).string();
  }
  static void append(Words& words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
  }
  static Words vocabulary() {
    return {
        "--tokenizer-type",
        "BertWordPieceLowerCase",
        "--vocab-file",
        CAIRN_GOLDEN_DIR "/tokenizers/bert/vocab-uncased.txt"};
  }

  /// Runs 12 steps on so many ranks, with a log of each in `name`.jsonl.
  static Result pretrain(
      const char* model,
      const std::string& name,
      int ranks,
      const Words& more) {
    Words words{program(), "launch", "--num_gpus", std::to_string(ranks)};
    append(
        words,
        {"pretrain",
         model,
         "--encoder-num-layers",
         "2",
         "--hidden-size",
         "16",
         "--num-attention-heads",
         "2",
         "--seq-length",
         "32",
         "--decoder-seq-length",
         "16",
         "--hidden-dropout",
         "0",
         "--attention-dropout",
         "0",
         "--micro-batch-size",
         "2",
         "--global-batch-size",
         "8",
         "--train-iters",
         "12",
         "--lr",
         "1e-2",
         "--lr-decay-iters",
         "100",
         "--split",
         "90,5,5",
         "--eval-iters",
         "1",
         "--log-interval",
         "1",
         "--data-path",
         path("masked_text_sentence"),
         "--save",
         path(name),
         "--load",
         path(name),
         "--log-jsonl",
         path(name + ".jsonl")});
    append(words, vocabulary());
    append(words, more);
    return run(words);
  }
  static void succeed(
      const char* model,
      const std::string& name,
      int ranks,
      const Words& more) {
    const Result result = pretrain(model, name, ranks, more);
    ASSERT_EQ(result.code, 0) << result.out << result.err;
  }

  /// The number behind `field` in each line that has it.
  static std::vector<double> values(
      const std::string& name,
      const std::string& field) {
    std::vector<double> result;
    std::istringstream lines(read_file(path(name + ".jsonl"), 1 << 20));
    for (std::string line; std::getline(lines, line);) {
      const auto object = nlohmann::json::parse(line);
      if (object.contains(field)) {
        result.push_back(object[field]);
      }
    }
    return result;
  }

  /// Trains half of a run on stages, the other half otherwise: as if it were
  /// one.
  static void goes_on_elsewhere(
      const char* model,
      const std::vector<std::string>& losses) {
    const std::string whole = std::string(model) + "_whole";
    const std::string parts = std::string(model) + "_parts";
    succeed(model, whole, 1, {});
    succeed(
        model,
        parts,
        2,
        {"--pipeline-model-parallel-size", "2", "--exit-interval", "6"});
    EXPECT_FALSE(std::filesystem::exists(path(parts) + "/global_step12"));
    succeed(model, parts, 2, {"--zero-stage", "2"});
    EXPECT_TRUE(std::filesystem::exists(path(parts) + "/global_step12"));
    for (const std::string& loss : losses) {
      const auto wanted = values(whole, loss);
      ASSERT_THAT(wanted, SizeIs(12)) << loss;
      EXPECT_THAT(
          values(parts, loss),
          ::testing::Pointwise(::testing::DoubleNear(1e-3), wanted));
    }
    EXPECT_LT(values(whole, "lm loss").back(), 9.5); // of ln 30522 = 10.3
  }

 private:
  static inline std::unique_ptr<TemporaryFolder> folder_;
};

TEST_F(PretrainMasked, BertInStagesIsBert) {
  goes_on_elsewhere("bert", {"lm loss", "sop loss", "grad norm"});
}

TEST_F(PretrainMasked, T5InStagesIsT5) {
  goes_on_elsewhere("t5", {"lm loss", "grad norm"});
}

TEST_F(PretrainMasked, BertWithoutItsBinaryHead) {
  succeed(
      "bert",
      "words",
      2,
      {"--bert-no-binary-head", "--pipeline-model-parallel-size", "2"});
  EXPECT_THAT(values("words", "lm loss"), SizeIs(12));
  EXPECT_THAT(values("words", "sop loss"), IsEmpty());
}

TEST_F(PretrainMasked, RefusesMoreStagesThanLayersBeforeAnythingElse) {
  const Result result = pretrain(
      "t5",
      "none",
      4,
      {"--pipeline-model-parallel-size", "4", "--decoder-num-layers", "1"});
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(
      result.out + result.err,
      AllOf(
          HasSubstr("--pipeline-model-parallel-size: a pipeline has at most "
                    "as many stages as the model layers (4; 2 encoder and 1 "
                    "decoder layers); use at most 3 stages"),
          Not(HasSubstr("effective batch"))));
}

} // namespace
} // namespace cairn::cli::pretrain_masked_test
