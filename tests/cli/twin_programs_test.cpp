// Examples in two versions, without and with the engine: they learn the same,
// go on where they stopped, and differ as their pages say.

#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace cairn::testing::twin_programs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

const std::string bin = CAIRN_BINARY_DIR "/bin/";

Result cairn(Words words) {
  words.insert(words.begin(), bin + "cairn");
  return run(words);
}

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The loss of each line "… MARK 1.234…".
std::vector<double> losses(const std::string& out, const std::string& mark) {
  std::vector<double> values;
  for (auto at = out.find(mark); at != std::string::npos;
       at = out.find(mark, at + 1)) {
    values.push_back(std::stod(out.substr(at + mark.size())));
  }
  return values;
}

/// Compares the page's blocks of diff with `diff -u` of these files.
void expect_page_shows_diff(
    const std::string& page,
    const std::string& plain,
    const std::string& engine) {
  const std::string folder = CAIRN_SOURCE_DIR "/examples/";
  const Result differ = run(
      {"bash",
       "-c",
       "diff -u '" + folder + plain + "' '" + folder + engine +
           "' | tail -n +3"});
  std::istringstream lines(
      read_text(fs::path(CAIRN_SOURCE_DIR) / "docs" / page));
  std::string shown;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      inside = line == "```diff";
    } else if (inside) {
      shown += line + "\n";
    }
  }
  EXPECT_EQ(shown, differ.out)
      << "put `diff -u " << plain << " " << engine << "` into docs/" << page;
}

void succeed(const Result& result) {
  ASSERT_EQ(result.code, 0) << result.out << result.err;
}

class TwinPrograms : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  TemporaryFolder folder_;
};

class TrainBert : public TwinPrograms {
 protected:
  void SetUp() override {
    succeed(cairn(
        {"data",
         "sample-corpus",
         "--format",
         "text",
         "--output",
         path("wiki.txt"),
         "--size",
         "50KB",
         "--workers",
         "1"}));
    succeed(cairn(
        {"train-tokenizer",
         path("wiki.txt"),
         path("roberta"),
         "--vocab-size",
         "500",
         "--special-tokens",
         "<s>,<pad>,</s>,<unk>,<mask>"}));
  }
  Words flags(const std::string& checkpoints) const {
    return {
        "--data",
        path("wiki.txt"),
        "--tokenizer",
        path("roberta"),
        "--checkpoint_dir",
        path(checkpoints),
        "--local_rank",
        "0",
        "--log_every",
        "1",
        "--checkpoint_every",
        "3",
        "--num_layers",
        "2",
        "--num_heads",
        "2",
        "--ff_dim",
        "32",
        "--h_dim",
        "32",
        "--dropout",
        "0",
        "--max_seq_length",
        "64",
        "--batch_size",
        "4"};
  }
  /// The only run in the folder.
  fs::path run_in(const std::string& checkpoints) const {
    return fs::directory_iterator(folder_ / checkpoints)->path();
  }
};

TEST_F(TrainBert, BothLearnTheSameAndGoOnWhereTheyStopped) {
  std::vector<std::vector<double>> curves;
  for (const std::string twin : {"train_bert", "train_bert_ds"}) {
    const Result whole =
        run(Words{bin + twin} + flags(twin) + Words{"--num_iterations", "6"});
    succeed(whole);
    const auto curve = losses(whole.out, ": loss ");
    ASSERT_EQ(curve.size(), 6U) << whole.out;
    EXPECT_NEAR(curve.front(), 6.2, 0.5) << "about ln(500)";

    const std::string half = twin + "_half";
    succeed(
        run(Words{bin + twin} + flags(half) + Words{"--num_iterations", "3"}));
    const Result rest = run(
        {bin + twin,
         "--load_checkpoint_dir",
         run_in(half),
         "--num_iterations",
         "6"});
    succeed(rest);
    EXPECT_THAT(rest.out, ::testing::Not(HasSubstr("step 3:")));
    const auto later = losses(rest.out, ": loss ");
    ASSERT_EQ(later.size(), 3U) << rest.out;
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(later[i], curve[3 + i], 1e-4) << twin;
    }
    curves.push_back(curve);
  }
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(curves[0][i], curves[1][i], 2e-4) << "step " << i + 1;
  }
}

TEST_F(TrainBert, Learns) {
  const Result result =
      run(Words{bin + "train_bert_ds"} + flags("runs") +
          Words{
              "--num_iterations",
              "120",
              "--log_every",
              "40",
              "--checkpoint_every",
              "1000"});
  succeed(result);
  const auto curve = losses(result.out, ": loss ");
  ASSERT_EQ(curve.size(), 3U) << result.out;
  EXPECT_LT(curve[1], curve[0]);
  EXPECT_LT(curve[2], curve[1]);
}

TEST_F(TrainBert, TwoRanksShareARunFolder) {
  std::vector<std::vector<double>> curves;
  for (const std::string twin : {"train_bert", "train_bert_ds"}) {
    const Result result = cairn(
        Words{"launch", "--num_gpus", "2", bin + twin} + flags(twin) +
        Words{"--num_iterations", "3"});
    succeed(result);
    curves.push_back(losses(result.out, ": loss "));
    const fs::path run = run_in(twin);
    EXPECT_THAT(
        run.filename().string(),
        ContainsRegex(
            "^bert_pretrain\\.20[0-9]+(\\.[0-9]+){5}\\.[a-z0-9]{8}$"));
    EXPECT_THAT(
        read_text(run / "hparams.json"),
        AllOf(HasSubstr("\"h_dim\": 32,"), HasSubstr("\"mask_prob\": 0.15,")));
    for (const char* name : {"githash.log", "gitdiff.log", "latest"}) {
      EXPECT_TRUE(fs::exists(run / name)) << name;
    }
    EXPECT_FALSE(fs::is_empty(run / "tb_dir"));
    EXPECT_EQ(
        std::distance(
            fs::directory_iterator(folder_ / twin),
            fs::directory_iterator()),
        1);
  }
  ASSERT_EQ(curves[0].size(), 3U);
  ASSERT_EQ(curves[1].size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(curves[0][i], curves[1][i], 2e-4) << "step " << i + 1;
  }
}

TEST_F(TwinPrograms, TrainBertSaysWhatIsWrong) {
  const auto refused = [&](const Words& words, const std::string& why) {
    const Result result = run(Words{bin + "train_bert_ds"} + words);
    EXPECT_NE(result.code, 0);
    EXPECT_THAT(result.err, HasSubstr(why));
  };
  refused({}, "--checkpoint_dir FOLDER");
  refused({"--checkpoint_dir", path("x"), "--layers", "2"}, "--layers");
  refused({"--checkpoint_dir", path("x"), "--h_dim", "0"}, "--h_dim");
  refused({"--deepspeed_config", "ds.json"}, "train_bert_ds.cpp");
  refused({"--load_checkpoint_dir", path("x")}, "this is no folder of a run");
  refused(
      {"--checkpoint_dir", path("x"), "--tokenizer", path("nothing")},
      "RoBERTa's vocab.json and merges.txt");
  folder_.write("hparams.json", "{\"data\": 3}");
  refused({"--load_checkpoint_dir", path("")}, "this is no folder of a run");
}

/// Tokens of generated stories, and the flags of a small GPT-2.
class Gpt2 : public TwinPrograms {
 protected:
  void SetUp() override {
    succeed(cairn(
        {"data",
         "sample-corpus",
         "--output",
         path("stories.jsonl"),
         "--size",
         "50KB",
         "--workers",
         "1"}));
    const std::string golden = CAIRN_GOLDEN_DIR "/tokenizers/train/own600-";
    flags_ = {
        "--vocab-file",
        golden + "vocab.json",
        "--merge-file",
        golden + "merges.txt",
        "--data-path",
        path("stories_text_document"),
        "--split",
        "949,50,1",
        "--num-layers",
        "2",
        "--hidden-size",
        "32",
        "--num-attention-heads",
        "2",
        "--seq-length",
        "32",
        "--train-iters",
        "4",
        "--lr",
        "0.01",
        "--lr-decay-style",
        "cosine",
        "--lr-warmup-iters",
        "1",
        "--weight-decay",
        "1e-2",
        "--log-interval",
        "1"};
    succeed(cairn(
        {"preprocess",
         "--input",
         path("stories.jsonl"),
         "--output-prefix",
         path("stories"),
         "--vocab-file",
         golden + "vocab.json",
         "--merge-file",
         golden + "merges.txt",
         "--append-eod"}));
  }
  /// The losses of four iterations, or of those that are left.
  std::vector<double> train(const std::string& twin, int ranks, Words more)
      const {
    const Result result =
        run(environment_ + Words{bin + "cairn", "launch", "--num_gpus"} +
            Words{std::to_string(ranks), bin + twin} + flags_ + more);
    succeed(result);
    return losses(result.out, "| lm loss ");
  }
  /// The curves of both twins, which must be near each other.
  std::vector<double> train_both(
      int ranks,
      const Words& more,
      double near,
      const Words& engine = {}) const {
    const auto plain = train("pretrain_gpt2", ranks, more);
    const auto with = train("pretrain_gpt2_ds", ranks, more + engine);
    EXPECT_EQ(plain.size(), 4U);
    EXPECT_EQ(with.size(), plain.size());
    for (std::size_t i = 0; i < std::min(plain.size(), with.size()); ++i) {
      EXPECT_NEAR(plain[i], with[i], near) << "iteration " << i + 1;
    }
    return plain;
  }

  Words flags_;
  Words environment_; ///< a program that sets variables, with its arguments
};

const Words no_dropout{"--hidden-dropout", "0", "--attention-dropout", "0"};

TEST_F(Gpt2, LearnsTheSameOnAnyMesh) {
  const auto one = train_both(1, no_dropout + Words{"--batch-size", "4"}, 1e-4);
  EXPECT_LT(one.back(), one.front() - 0.2);
  const auto shared = train_both(
      2,
      no_dropout + Words{"--batch-size", "4", "--model-parallel-size", "2"},
      1e-4);
  const auto data = train_both(
      2,
      no_dropout + Words{"--batch-size", "2"},
      1e-4,
      {"--zero-stage", "2"});
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(one[i], shared.at(i), 1e-4) << "iteration " << i + 1;
    EXPECT_NEAR(one[i], data.at(i), 1e-4) << "iteration " << i + 1;
  }
}

TEST_F(Gpt2, UpdatesFp32CopiesOfFp16Weights) {
  const auto half =
      train_both(1, no_dropout + Words{"--batch-size", "4", "--fp16"}, 2e-2);
  EXPECT_LT(half.back(), half.front() - 0.2);
}

TEST_F(Gpt2, GoesOnWithItsRandomNumbers) {
  // One thread: several may share out a sum differently from run to run.
  environment_ = {"env", "OMP_NUM_THREADS=1"};
  for (const std::string twin : {"pretrain_gpt2", "pretrain_gpt2_ds"}) {
    const Words saves{
        "--batch-size",
        "4",
        "--save",
        path(twin),
        "--load",
        path(twin),
        "--save-interval",
        "2"};
    const auto whole = train(twin, 1, saves); // with dropout
    ASSERT_EQ(whole.size(), 4U);
    const bool plain = twin == "pretrain_gpt2";
    folder_.write(
        twin + (plain ? "/latest_checkpointed_iteration.txt" : "/latest"),
        plain ? "2" : "iter_2");
    const auto rest = train(twin, 1, saves);
    ASSERT_EQ(rest.size(), 2U);
    EXPECT_NEAR(rest[0], whole[2], 1e-5) << twin;
    EXPECT_NEAR(rest[1], whole[3], 1e-5) << twin;
  }
}

TEST_F(TwinPrograms, Gpt2SaysWhatIsWrong) {
  const auto refused = [&](const Words& words, const std::string& why) {
    const Result result = run(Words{bin + "pretrain_gpt2"} + words);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(why));
  };
  const Words size{
      "--num-layers",
      "2",
      "--hidden-size",
      "32",
      "--num-attention-heads",
      "2",
      "--seq-length",
      "32"};
  refused(size, "--data-path");
  refused(size + Words{"--bf16"}, "--bf16");
  refused(size + Words{"--zero-stage", "2"}, "--zero-stage");
  const Result help = run({bin + "pretrain_gpt2", "--help"});
  EXPECT_EQ(help.code, 0) << help.err;
  EXPECT_THAT(
      help.out,
      AllOf(HasSubstr("--num-layers N"), Not(HasSubstr("--zero-stage"))));
}

TEST(TwinPages, OfGpt2ShowsWhatDiffers) {
  expect_page_shows_diff(
      "gpt2.md",
      "gpt2/pretrain_gpt2.cpp",
      "gpt2/pretrain_gpt2_ds.cpp");
}

TEST(TwinPages, OfTrainBertShowsWhatDiffers) {
  expect_page_shows_diff(
      "train-bert.md",
      "train_bert/train_bert.cpp",
      "train_bert/train_bert_ds.cpp");
}

} // namespace
} // namespace cairn::testing::twin_programs_test
