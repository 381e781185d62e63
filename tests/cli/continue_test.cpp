// `cairn pretrain --load` goes on with trainings of Megatron-LM and
// Megatron-DeepSpeed: its losses are those that the programs themselves had.

#include "cli/pretrain_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

namespace cairn::cli::continue_test {
namespace {

using pretrain_test::cairn;
using pretrain_test::succeed;
using pretrain_test::operator+;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Result;
using testing::run;
using testing::TemporaryFolder;
using testing::Words;

namespace fs = std::filesystem;

const std::string golden = CAIRN_GOLDEN_DIR "/checkpoints_core/";

struct Case {
  std::string checkpoint; ///< a folder of golden data
  std::string model;      ///< "gpt", "llama", "moe" (a Llama with experts),
                          ///< "squared" (its activation), "gpt_moe" (with
                          ///< DeepSpeed's experts), "bert" or "t5"
  int ranks = 1;
  Words more{};
  double tolerance = 2e-5;
  int decay = 20; ///< iterations
};

std::ostream& operator<<(std::ostream& out, const Case& one) {
  return out << one.checkpoint << " on " << one.ranks;
}

void add_words(const std::string& text, Words& to) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    to.push_back(word);
  }
}

/// Of a BERT or a T5: true for models of sentences.
bool has_sentences(const Case& one) {
  return one.model == "bert" || one.model == "t5";
}

Words kind_of(const Case& one) {
  return {"pretrain", has_sentences(one) ? one.model : "gpt"};
}

/// The flags that describe the model of the checkpoint and its samples.
Words model_of(const Case& one) {
  Words flags;
  const auto add = [&](const std::string& text) { add_words(text, flags); };
  if (has_sentences(one)) {
    add("--hidden-size 8 --num-attention-heads 2 --ffn-hidden-size 20 "
        "--max-position-embeddings 24 --make-vocab-size-divisible-by 8 "
        "--hidden-dropout 0 --attention-dropout 0 "
        "--tokenizer-type BertWordPieceLowerCase");
    add(one.model == "bert" ? "--num-layers 2 --seq-length 24"
                            : "--encoder-num-layers 2 --decoder-num-layers 2 "
                              "--encoder-seq-length 24 --decoder-seq-length 12 "
                              "--vocab-extra-ids 16");
    return flags + Words{"--vocab-file", golden + "continued/vocab.txt"};
  }
  add("--num-layers 2 --hidden-size 16 --num-attention-heads 4 "
      "--seq-length 14 --max-position-embeddings 14 "
      "--make-vocab-size-divisible-by 8 --vocab-size 49 "
      "--tokenizer-type NullTokenizer --hidden-dropout 0 "
      "--attention-dropout 0");
  if (one.model == "moe") {
    add("--num-experts 4 --moe-router-topk 2 --moe-aux-loss-coeff 0");
  }
  if (one.model == "gpt_moe") {
    add("--num-experts 4 --expert-interval 2 --topk 1 --moe-loss-coeff 0.01 "
        "--disable-moe-token-dropping");
  }
  if (one.model.starts_with("gpt")) {
    add("--ffn-hidden-size 36");
    return flags;
  }
  add(one.model == "squared" ? "--squared-relu" : "--swiglu");
  add("--normalization RMSNorm --disable-bias-linear "
      "--position-embedding-type rope --ffn-hidden-size 20 "
      "--untie-embeddings-and-output-weights --num-key-value-heads 2");
  return flags;
}

/// The other flags of the run that saved the checkpoint, for ten more
/// iterations. Index files of the data come to `folder`, since golden data
/// stays as it is.
Words training_of(const Case& one, const TemporaryFolder& folder) {
  Words flags;
  const auto add = [&](const std::string& text) { add_words(text, flags); };
  add("--lr 0.02 --min-lr 0.001 --lr-warmup-iters 2 --lr-decay-style cosine "
      "--weight-decay 0.1 --adam-beta2 0.95 --clip-grad 1.0 --seed 1234 "
      "--train-iters 15 --eval-iters 0 --log-interval 1 "
      "--split 100,0,0");
  if (one.model == "squared") {
    // Word embeddings and the output layer have a learning rate of their own.
    add("--decoupled-lr 0.01 --decoupled-min-lr 0.002");
  }
  add("--lr-decay-iters " + std::to_string(one.decay));
  if (has_sentences(one)) {
    add("--short-seq-prob 0");
  }
  // Of several micro batches its program prints a T5's mean of all tokens.
  add(one.model == "t5" ? "--micro-batch-size 4" : "--micro-batch-size 2");
  const bool of_gpt_mds = one.checkpoint.starts_with("gpt_mds");
  add(of_gpt_mds ? "--global-batch-size 8" : "--global-batch-size 4");
  return flags +
      Words{
          "--data-path",
          golden + "continued/" + (has_sentences(one) ? "sentences" : "data"),
          "--data-cache-path",
          (folder.path() / "indices").string(),
          "--load",
          golden + one.checkpoint} +
      one.more;
}

Words flags_of(const Case& one, const TemporaryFolder& folder) {
  return kind_of(one) + model_of(one) + training_of(one, folder);
}

Words on(int ranks, const Words& words) {
  return ranks == 1
      ? cairn(words)
      : cairn(Words{"launch", "--num_gpus", std::to_string(ranks)} + words);
}

std::map<int, double> losses_in(const fs::path& log) {
  std::map<int, double> losses;
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    if (object.contains("lm loss")) {
      losses[object.at("step")] = object["lm loss"];
    }
  }
  return losses;
}

/// The losses of iterations 6 to 15, as the program itself printed them.
std::vector<double> wanted_losses(const std::string& checkpoint) {
  std::ifstream file(golden + "continued/losses.json");
  return nlohmann::json::parse(file).at(checkpoint);
}

void expect_losses(
    const std::map<int, double>& got,
    const std::vector<double>& wanted,
    double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const int iteration = static_cast<int>(i) + 6;
    ASSERT_TRUE(got.contains(iteration)) << iteration;
    EXPECT_NEAR(got.at(iteration), wanted[i], tolerance)
        << "iteration " << iteration;
  }
}

class Continued : public ::testing::TestWithParam<Case> {};

TEST_P(Continued, HasTheLossesOfTheProgramItself) {
  const TemporaryFolder folder;
  const std::string log = (folder.path() / "log.jsonl").string();
  const Case& one = GetParam();
  const Result result =
      run(on(one.ranks, flags_of(one, folder) + Words{"--log-jsonl", log}));
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(
      result.out + result.err,
      AllOf(
          HasSubstr("going on after iteration 5"),
          HasSubstr("the optimizer's states")));
  expect_losses(losses_in(log), wanted_losses(one.checkpoint), one.tolerance);
}

// In 16 bits the programs round at other places.
constexpr double half = 5e-3;
// DeepSpeed's own stages 3 and 1 differ as much in fp32.
constexpr double stage_3 = 5e-3;
const Words residual{"--mlp-type", "residual"};

INSTANTIATE_TEST_SUITE_P(
    Golden,
    Continued,
    ::testing::Values(
        Case{"gpt/torch_tp2", "gpt"},
        Case{"gpt/torch_pp2", "gpt"},
        Case{"gpt/dist_tp2", "gpt", 2, {"--tensor-model-parallel-size", "2"}},
        Case{"llama/torch_tp2", "llama", 2, {"--zero-stage", "3"}},
        Case{"llama/dist_tp2_pp2", "llama"},
        Case{"llama_bf16/torch_tp1", "llama", 1, {"--bf16"}, half},
        Case{"llama_bf16/dist_tp1", "llama", 1, {"--bf16"}, half},
        Case{"gpt_bf16_distopt/torch_dp2", "gpt", 1, {"--bf16"}, half},
        Case{
            "gpt_bf16_distopt/dist_dp2",
            "gpt",
            2,
            {"--bf16", "--use-distributed-optimizer"},
            half},
        Case{"gpt_bf16_distopt/dist_dp2_full", "gpt", 1, {"--bf16"}, half},
        Case{"gpt_mds/zero1_pp2_dp2", "gpt", 1, {"--fp16"}, half, 5},
        Case{"gpt_mds/universal", "gpt", 2, {"--fp16"}, half, 5},
        Case{"gpt_mds_zero/zero1", "gpt"},
        Case{"gpt_mds_zero/zero2", "gpt", 2, {"--zero-stage", "2"}},
        Case{"gpt_mds_zero/zero3", "gpt", 2, {"--zero-stage", "3"}, stage_3},
        Case{"gpt_mds_zero/zero3_bf16", "gpt", 1, {"--bf16"}, half},
        Case{"llama_mds/zero1_tp2_pp2", "llama", 1, {"--bf16"}, half, 5},
        Case{"moe_mds/zero0", "gpt_moe"},
        Case{
            "moe_mds/zero1",
            "gpt_moe",
            2,
            {"--moe-expert-parallel-size", "2", "--zero-stage", "1"}},
        Case{"moe_mds/zero0_residual", "gpt_moe", 1, residual},
        Case{"moe_mds/zero1_residual", "gpt_moe", 1, residual},
        Case{"llama_dcp/fsdp2", "llama", 1, {"--num-layers", "1"}},
        Case{"squared_relu/torch", "squared"},
        Case{
            "squared_relu/torch",
            "squared",
            2,
            {"--pipeline-model-parallel-size", "2"}},
        Case{"moe/torch_ep2", "moe"},
        Case{"moe/dist_ep2", "moe", 2, {"--expert-model-parallel-size", "2"}},
        Case{"moe_bf16_distopt/torch_ep2", "moe", 1, {"--bf16"}, half},
        Case{"moe_bf16_distopt/dist_ep2", "moe", 1, {"--bf16"}, half},
        Case{"moe_bf16_distopt/torch_dp2", "moe", 1, {"--bf16"}, half},
        Case{"bert/torch_pp2", "bert"},
        Case{"bert/dist", "bert", 2, {"--zero-stage", "1"}},
        Case{"bert/torch_bf16_distopt", "bert", 1, {"--bf16"}, half},
        Case{"bert/dist_bf16_distopt", "bert", 1, {"--bf16"}, half},
        Case{"t5/torch_tp2", "t5", 2, {"--tensor-model-parallel-size", "2"}},
        Case{"t5/dist", "t5"},
        Case{"t5/torch_bf16_distopt", "t5", 1, {"--bf16"}, half},
        Case{"t5/dist_bf16_distopt", "t5", 1, {"--bf16"}, half}));

class ByItsOwnArguments : public ::testing::TestWithParam<Case> {};

TEST_P(ByItsOwnArguments, HasTheLossesOfTheProgramItself) {
  const TemporaryFolder folder;
  const std::string log = (folder.path() / "log.jsonl").string();
  const Case& one = GetParam();
  const Result result = run(
      on(one.ranks,
         kind_of(one) + training_of(one, folder) +
             Words{"--use-checkpoint-args", "--log-jsonl", log}));
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(
      result.out + result.err,
      HasSubstr(
          "--use-checkpoint-args: from " + golden + one.checkpoint +
          (one.model == "t5" ? ": --encoder-num-layers 2"
                             : ": --num-layers 2 --hidden-size")));
  expect_losses(losses_in(log), wanted_losses(one.checkpoint), one.tolerance);
}

// Megatron takes no such files from a checkpoint, and theirs has a name without
// a folder.
const Words own_vocabulary{"--vocab-file", golden + "continued/vocab.txt"};

INSTANTIATE_TEST_SUITE_P(
    Golden,
    ByItsOwnArguments,
    ::testing::Values(
        Case{"gpt/torch_tp2", "gpt"},
        Case{"gpt/dist_tp2", "gpt", 2, {"--use-mp-args-from-checkpoint-args"}},
        Case{"llama/dist_tp2_pp2", "llama"},
        Case{"squared_relu/torch", "squared"},
        Case{"moe/dist_ep2", "moe"},
        Case{"gpt_mds_zero/zero1", "gpt"},
        Case{"bert/dist", "bert", 1, own_vocabulary},
        Case{"t5/dist", "t5", 1, own_vocabulary}));

Words with_load(Words flags, const std::string& folder) {
  *(std::find(flags.begin(), flags.end(), "--load") + 1) = folder;
  return flags;
}

/// Trains a case's run until a checkpoint of ours, and goes on from there with
/// the words that `from` gives for its folder; expects the run's losses.
template <typename From>
void expect_to_go_on_from_our_checkpoint(From from) {
  const TemporaryFolder folder;
  const std::string save = (folder.path() / "run").string();
  const std::string log = (folder.path() / "log.jsonl").string();
  const Case one{"gpt/torch_pp2", "gpt"};
  const Words saving{"--save", save, "--log-jsonl", log};
  succeed(
      cairn(flags_of(one, folder) + saving + Words{"--exit-interval", "10"}));
  succeed(cairn(from(one, folder, save) + saving));
  expect_losses(losses_in(log), wanted_losses(one.checkpoint), one.tolerance);
}

TEST(Continue, SavesAndGoesOnFromItsOwnCheckpoint) {
  expect_to_go_on_from_our_checkpoint(
      [](const Case& one, const auto& folder, const auto& save) {
        return with_load(flags_of(one, folder), save);
      });
}

TEST(Continue, TakesTheArgumentsOfItsOwnCheckpoint) {
  expect_to_go_on_from_our_checkpoint(
      [](const Case& one, const auto& folder, const auto& save) {
        const Words flags = Words{"pretrain", "gpt"} + training_of(one, folder);
        return with_load(flags, save) + Words{"--use-checkpoint-args"};
      });
}

TEST(Continue, SaysWhereTheCommandLineAndTheCheckpointDiffer) {
  const TemporaryFolder folder;
  const auto said = [&](const Words& more, int code) {
    const Result result = run(cairn(
        Words{"pretrain", "gpt"} +
        training_of({"gpt/torch_tp2", "gpt"}, folder) + more +
        Words{"--use-checkpoint-args"}));
    EXPECT_EQ(result.code, code) << result.out << result.err;
    return result.out + result.err;
  };
  EXPECT_THAT(
      said(
          {"--swiglu",
           "--normalization",
           "RMSNorm",
           "--use-mp-args-from-checkpoint-args",
           "--dry-run=4"},
          0),
      AllOf(
          HasSubstr("--swiglu gives way to the checkpoint's lack of it"),
          HasSubstr("--normalization RMSNorm gives way to the checkpoint's "
                    "--normalization LayerNorm"),
          HasSubstr("4 = 2 data x 1 pipeline x 2 tensor")));
  EXPECT_THAT(
      said({"--hidden-size", "32"}, 2),
      HasSubstr("hidden 16 there, 32 here"));
  EXPECT_THAT(
      said(
          {"--no-use-tokenizer-model-from-checkpoint-args",
           "--tokenizer-type",
           "GPT2BPETokenizer",
           "--dry-run"},
          2),
      HasSubstr("--vocab-file"));
  EXPECT_THAT(
      said({"--load", (folder.path() / "none").string()}, 2),
      AllOf(
          HasSubstr("no checkpoint in"),
          HasSubstr("--seq-length: the length of a sample is not said")));
  const Result other = run(cairn(
      {"pretrain",
       "bert",
       "--load",
       golden + "gpt/torch_tp2",
       "--use-checkpoint-args"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("gpt, not bert"));
  const Result none = run(cairn({"pretrain", "gpt", "--use-checkpoint-args"}));
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("name its folder with --load"));
}

/// A checkpoint that goes through files of another program before it is loaded.
struct Detour {
  Case from;
  Words flags; ///< of `cairn convert`
};

std::ostream& operator<<(std::ostream& out, const Detour& one) {
  out << one.from.checkpoint;
  for (const std::string& word : one.flags) {
    out << ' ' << word;
  }
  return out;
}

class Converted : public ::testing::TestWithParam<Detour> {};

TEST_P(Converted, HasTheLossesOfTheProgramItself) {
  const TemporaryFolder folder;
  const auto [one, flags] = GetParam();
  const std::string log = (folder.path() / "log.jsonl").string();
  const std::string there = (folder.path() / "there").string();
  succeed(cairn(
      Words{
          "convert",
          "--input",
          golden + one.checkpoint,
          "--output",
          there,
          "--keep-padding"} +
      flags));
  succeed(cairn(
      with_load(flags_of(one, folder), there) + Words{"--log-jsonl", log}));
  expect_losses(losses_in(log), wanted_losses(one.checkpoint), one.tolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Golden,
    Converted,
    ::testing::Values(
        Detour{
            {"gpt/torch_tp2", "gpt"},
            {"--to",
             "deepspeed",
             "--universal",
             "--megatron-deepspeed",
             "pipeline",
             "--make-vocab-size-divisible-by",
             "8"}},
        Detour{
            {"gpt_mds_zero/zero3", "gpt", 1, {}, 5e-3},
            {"--to",
             "deepspeed",
             "--megatron-deepspeed",
             "pipeline",
             "--pipeline-model-parallel-size",
             "2",
             "--zero-ranks",
             "2",
             "--make-vocab-size-divisible-by",
             "8"}},
        Detour{
            {"gpt_mds_zero/zero1", "gpt"},
            {"--to",
             "deepspeed",
             "--megatron-deepspeed",
             "no-pipeline",
             "--tensor-model-parallel-size",
             "2",
             "--zero-stage",
             "2",
             "--make-vocab-size-divisible-by",
             "4"}},
        Detour{{"llama/torch_tp2", "llama"}, {"--to", "dcp"}},
        Detour{
            {"gpt/torch_pp2", "gpt"},
            {"--to",
             "megatron",
             "--megatron-names",
             "legacy",
             "--tensor-model-parallel-size",
             "2",
             "--make-vocab-size-divisible-by",
             "4"}},
        Detour{
            {"llama/dist_tp2_pp2", "llama"},
            {"--to",
             "megatron",
             "--use-distributed-optimizer",
             "--pipeline-model-parallel-size",
             "2",
             "--make-vocab-size-divisible-by",
             "8"}},
        Detour{
            {"moe/torch_ep2", "moe"},
            {"--to",
             "megatron",
             "--megatron-names",
             "core-local",
             "--make-vocab-size-divisible-by",
             "8"}},
        Detour{
            {"moe/dist_ep2", "moe"},
            {"--to",
             "megatron",
             "--use-distributed-optimizer",
             "--tensor-model-parallel-size",
             "2",
             "--make-vocab-size-divisible-by",
             "4"}},
        Detour{
            {"moe/dist_ep2", "moe"},
            {"--to",
             "megatron",
             "--megatron-names",
             "core",
             "--expert-model-parallel-size",
             "4",
             "--pipeline-model-parallel-size",
             "2",
             "--make-vocab-size-divisible-by",
             "8"}},
        Detour{
            {"moe/dist_ep2", "moe"},
            {"--to",
             "megatron",
             "--ckpt-format",
             "torch_dist",
             "--make-vocab-size-divisible-by",
             "8"}}));

TEST(Continue, LosesNothingOnTheWayThroughDeepSpeed) {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  const std::string log = (folder.path() / "log.jsonl").string();
  const Case one{"gpt/torch_pp2", "gpt"};
  succeed(cairn(
      flags_of(one, folder) +
      Words{"--save", run, "--log-jsonl", log, "--exit-interval", "10"}));
  std::string place = run;
  for (const Words& to :
       {Words{"deepspeed", "--zero-stage", "2", "--zero-ranks", "3"},
        Words{"deepspeed", "--universal"},
        Words{"native"}}) {
    const std::string from = place;
    place += "_";
    succeed(cairn(
        Words{"convert", "--input", from, "--output", place, "--to"} + to));
  }
  succeed(cairn(
      with_load(flags_of(one, folder), place) + Words{"--log-jsonl", log}));
  expect_losses(losses_in(log), wanted_losses(one.checkpoint), one.tolerance);
}

TEST(Continue, DoesWhatMegatronsFlagsSay) {
  const TemporaryFolder folder;
  const Case one{"gpt/torch_pp2", "gpt"};
  const auto said = [&](const Words& more, const std::string& seed = "1234") {
    Words flags = flags_of(one, folder);
    *(std::ranges::find(flags, "--seed") + 1) = seed;
    const Result result = run(cairn(flags + more));
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out + result.err;
  };
  EXPECT_THAT(
      said({"--no-load-optim", "--exit-interval", "6"}),
      AllOf(
          HasSubstr("going on after iteration 5, 20 samples consumed, with the "
                    "weights, the schedule's place"),
          HasSubstr("not taken over: the optimizer's states "
                    "(--no-load-optim)")));
  EXPECT_THAT(
      said({"--no-load-rng", "--exit-interval", "6"}),
      HasSubstr("random states (--no-load-rng)"));
  EXPECT_THAT(
      said({"--exit-interval", "6"}, "4321"),
      AllOf(
          HasSubstr("not taken over: random states (of Python, NumPy, PyTorch "
                    "and CUDA: "),
          HasSubstr("the run that saved it had --seed 1234, and this one has "
                    "4321")));
  EXPECT_THAT(
      said({"--finetune", "--exit-interval", "1"}),
      HasSubstr("fine-tuning from iteration 0"));
  const Result result = run(cairn(
      flags_of({"llama/torch_te_names_tp1", "llama"}, folder) +
      Words{"--bf16"}));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(
      result.err,
      AllOf(
          HasSubstr("the optimizer's states are not there"),
          HasSubstr("--no-load-optim")));
}

} // namespace
} // namespace cairn::cli::continue_test
