// `cairn evaluate`, on a tiny GPT-2 with random weights.

#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>

namespace cairn::cli::evaluate_test {
namespace {

using ::testing::AllOf;
using testing::Command;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Result;
using testing::Words;

const std::string cairn = CAIRN_BINARY_DIR "/bin/cairn";
const std::string golden = CAIRN_GOLDEN_DIR "/evaluation/";
const std::string tokenizers = CAIRN_GOLDEN_DIR "/tokenizers/train/";

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

/// The model and its tokenizer.
const Words model{
    "--load",
    golden + "model",
    "--tokenizer-model",
    tokenizers + "own600-tokenizer.json"};

const Words wikitext{
    "--task",
    "WIKITEXT103",
    "--valid-data",
    golden + "wiki.test.tokens"};

Words evaluate(const Words& more) {
  return Words{cairn, "evaluate"} + model + more;
}

std::string refusal(const Words& words) {
  const Result result = testing::run(words);
  EXPECT_NE(result.code, 0);
  EXPECT_EQ(result.out, "");
  return result.err;
}

constexpr const char* wikitext_line =
    " validation results on WIKITEXT103 | avg loss: 8.7546E+00 | ppl: "
    "6.3395E+03 | adjusted ppl: 2.5085E+08 | token ratio: 2.2091767881241564 "
    "|";

TEST(Evaluate, PrintsWhatMegatronPrints) {
  const Result result =
      testing::run(evaluate(wikitext + Words{"--log-interval", "4"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string rule(std::string(wikitext_line).size() + 1, '-');
  EXPECT_EQ(
      result.out,
      "> working on iteration: 0\n> working on iteration: 4\n" + rule + "\n" +
          wikitext_line + "\n" + rule + "\n");
  EXPECT_THAT(
      result.err,
      AllOf(
          HasSubstr("number of original tokens: 742, number of detokenized "
                    "tokens: 1638 (wikitext detokenizer)"),
          HasSubstr("evaluating WIKITEXT103: 51 rows in ")));
}

// The command in the guide to Megatron-LM, with a smaller model.
TEST(Evaluate, TakesTheCommandOfMegatronsGuide) {
  const Result result = testing::run(
      {cairn,
       "evaluate",
       "--task",
       "WIKITEXT103",
       "--num-layers",
       "2",
       "--hidden-size",
       "32",
       "--num-attention-heads",
       "4",
       "--seq-length",
       "64",
       "--max-position-embeddings",
       "64",
       "--fp16",
       "--vocab-file",
       tokenizers + "own600-vocab.json",
       "--valid-data",
       golden + "wiki.test.tokens",
       "--tokenizer-type",
       "GPT2BPETokenizer",
       "--merge-file",
       tokenizers + "own600-merges.txt",
       "--load",
       golden + "model",
       "--micro-batch-size",
       "8",
       "--checkpoint-activations",
       "--log-interval",
       "10",
       "--no-load-optim",
       "--no-load-rng"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(
          HasSubstr(" validation results on WIKITEXT103 | avg loss: 8.75"),
          HasSubstr(" | token ratio: 2.2091767881241564 |\n")));
  EXPECT_THAT(
      result.err,
      HasSubstr("about training, and without effect here: "
                "--checkpoint-activations, --no-load-optim, --no-load-rng"));
}

TEST(Evaluate, GivesTheSameOnManyRanksAndWritesJson) {
  const testing::TemporaryFolder folder;
  const std::string output = folder / "results.json";
  const Result result = testing::run(
      Words{cairn, "launch", "--num_gpus", "4", "evaluate"} + model + wikitext +
      Words{
          "--micro-batch-size",
          "5",
          "--tensor-model-parallel-size",
          "2",
          "--output",
          output});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(std::string("[0] ") + wikitext_line));
  EXPECT_THAT(result.out, Not(HasSubstr("[1] ")));
  const auto object = nlohmann::json::parse(testing::read_text(output));
  EXPECT_EQ(object.at("task"), "WIKITEXT103");
  EXPECT_EQ(object.at("data"), golden + "wiki.test.tokens");
  EXPECT_EQ(object.at("load"), golden + "model");
  EXPECT_EQ(object.at("format"), "huggingface");
  EXPECT_EQ(object.at("model"), "gpt2");
  EXPECT_EQ(object.at("precision"), "fp32");
  EXPECT_EQ(object.at("seq_length"), 64);
  EXPECT_EQ(object.at("overlapping_eval"), 32);
  EXPECT_EQ(object.at("ranks").dump(), R"({"data":2,"pipeline":1,"tensor":2})");
  EXPECT_NEAR(
      object.at("results").at("avg_loss").get<double>(),
      8.754559831670626,
      1e-6);
  EXPECT_GT(object.at("seconds").get<double>(), 0);
}

TEST(Evaluate, ShowsABarOnATerminal) {
  Command command(
      evaluate(wikitext + Words{"--log-interval", "1"}),
      {},
      Command::Streams::terminal);
  const Result result = command.finish();
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(
      result.out,
      AllOf(
          HasSubstr("evaluating WIKITEXT103"),
          HasSubstr(wikitext_line),
          Not(HasSubstr("working on iteration"))));
}

TEST(Evaluate, RefusesWhatItCannotDo) {
  EXPECT_THAT(
      refusal(evaluate({"--valid-data", "x"})),
      HasSubstr("--task: no task is named"));
  EXPECT_THAT(
      refusal(evaluate({"--task", "WIKITEXT"})),
      AllOf(HasSubstr("--task"), HasSubstr("WIKITEXT103")));
  EXPECT_THAT(
      refusal({cairn, "evaluate", "--task", "LAMBADA"}),
      HasSubstr("--load: no checkpoint is named"));
  EXPECT_THAT(
      refusal(evaluate({"--task", "LAMBADA", "--valid-data", "none.jsonl"})),
      HasSubstr("none.jsonl"));
  EXPECT_THAT(
      refusal(evaluate(wikitext + Words{"--greedy"})),
      HasSubstr("evaluate does not act on these flags (--greedy)"));
  EXPECT_THAT(
      refusal(evaluate(wikitext + Words{"--output", "/none/results.json"})),
      HasSubstr("/none"));
  EXPECT_THAT(
      refusal(evaluate(wikitext + Words{"--num-layers", "3"})),
      HasSubstr("layers 2 there, 3 here"));
  EXPECT_THAT(
      refusal(
          {cairn,
           "evaluate",
           "--task",
           "LAMBADA",
           "--valid-data",
           golden + "lambada.jsonl",
           "--load",
           CAIRN_GOLDEN_DIR "/models/bert",
           "--vocab-file",
           CAIRN_GOLDEN_DIR "/tokenizers/bert/vocab-uncased.txt"}),
      HasSubstr("text is written and scored by models that go from left to "
                "right (bert)"));
  const testing::TemporaryFolder folder;
  EXPECT_THAT(
      refusal(evaluate(
          {"--task",
           "LAMBADA",
           "--valid-data",
           folder.write("l.jsonl", "{\"text\": \"a b\"}\n{\"text\": 3}\n")})),
      HasSubstr("l.jsonl:2: \"text\" is to be a text (number)"));
}

} // namespace
} // namespace cairn::cli::evaluate_test
