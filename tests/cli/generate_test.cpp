// `cairn generate`, on a small GPT that the tests train first.

#include "cli/pretrain_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace cairn::cli::generate_test {
namespace {

namespace fs = std::filesystem;
using pretrain_test::Pretrain;
using pretrain_test::run;
using pretrain_test::Words;
using pretrain_test::operator+;
using ::testing::AllOf;
using testing::Command;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Result;
using ::testing::StartsWith;

class Generate : public Pretrain {
 protected:
  static void SetUpTestSuite() {
    Pretrain::SetUpTestSuite();
    pretrain_test::succeed(
        pretrain_test::cairn(gpt(4) + Words{"--save", path("trained")}));
  }

  static Words words(const Words& more) {
    return pretrain_test::cairn(
        Words{
            "generate",
            "--load",
            path("trained"),
            "--tokenizer-model",
            path("bpe/tokenizer.json")} +
        more);
  }
  static Result generate(const Words& more) { return run(words(more)); }
  static std::string text_of(const std::string& name) {
    return testing::read_text(path(name));
  }
  static std::vector<nlohmann::json> objects(const std::string& name) {
    std::vector<nlohmann::json> result;
    std::istringstream lines(text_of(name));
    for (std::string line; std::getline(lines, line);) {
      result.push_back(nlohmann::json::parse(line));
    }
    return result;
  }
};

TEST_F(Generate, WritesSamplesToAFile) {
  written("samples.json", "something else\n");
  const Result result = generate(
      {"--num-samples",
       "3",
       "--out-seq-length",
       "5",
       "--top_p",
       "0.9",
       "--micro-batch-size",
       "2",
       "--recompute",
       "--genfile",
       path("samples.json")});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("generating: 3 texts"));
  const auto samples = objects("samples.json");
  ASSERT_EQ(samples.size(), 3U);
  for (const auto& sample : samples) {
    EXPECT_EQ(sample.size(), 3U);
    EXPECT_FALSE(sample.at("text").get<std::string>().empty());
    EXPECT_LE(sample.at("length"), 5);
    EXPECT_EQ(sample.at("finished"), sample.at("length") < 5);
  }
  EXPECT_NE(samples[0], samples[1]);

  // On the screen the same texts, one at a time.
  const Result shown = generate(
      {"--num-samples",
       "3",
       "--out-seq-length",
       "5",
       "--top-p=0.9",
       "--micro-batch-size",
       "1"});
  std::string wanted;
  for (const auto& sample : samples) {
    wanted += wanted.empty() ? "" : "\n---\n";
    wanted += sample.at("text").get<std::string>() + "\n";
  }
  EXPECT_EQ(shown.out, wanted);
}

TEST_F(Generate, GoesOnWithTheLinesOfAFile) {
  const std::string input =
      written("prompts.txt", "Once upon a time\r\n\nThe king");
  const Result result =
      generate({"--sample-input-file", input, "--greedy", "--bf16"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto texts = objects("prompts.txt.out");
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(texts[0].at("prompt"), "Once upon a time");
  EXPECT_EQ(texts[1].at("prompt"), "The king");
  EXPECT_FALSE(texts[1].at("text").get<std::string>().empty());

  const std::string longer =
      written("long.txt", "short\n" + std::string(400, 'x') + "\n");
  const Result refused = generate(
      {"--sample-input-file",
       longer,
       "--sample-output-file",
       path("prompts.txt.out")});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(
      refused.err,
      HasSubstr("long.txt:2: the prompt leaves no room for a continuation"));
  EXPECT_EQ(objects("prompts.txt.out").size(), 2U) << "kept";
}

TEST_F(Generate, AsksForPromptsOnATerminal) {
  Command command(
      words({"--out-seq-length", "4"}),
      {},
      Command::Streams::terminal);
  command.wait_for("prompt> ");
  command.type("\n" + std::string(400, 'x') + "\n");
  command.wait_for("leaves no room for a continuation");
  command.type("Once upon\n");
  command.wait_for("\nOnce upon");
  command.type("stop\n");
  EXPECT_EQ(command.finish().code, 0);
}

TEST_F(Generate, ReadsPromptsFromAPipe) {
  const std::string line = [] {
    std::string quoted;
    for (const std::string& word : words({"--out-seq-length", "3"})) {
      quoted += "'" + word + "' ";
    }
    return quoted;
  }();
  const Result result =
      run({"bash", "-c", "printf 'Once upon\\nThe king' | " + line});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(
          StartsWith("Once upon"),
          HasSubstr("\nThe king"),
          Not(HasSubstr("prompt>"))));
}

TEST_F(Generate, TakesTheFlagsOfTheTrainingAndHoldsThemAgainstTheModel) {
  const Words training = gpt(4);
  const Words flags(training.begin() + 2, training.end());
  const Words two{"--num-samples", "2", "--out-seq-length", "2"};
  const Result result = generate(flags + two);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.err,
      AllOf(
          HasSubstr("about training, and without effect here: "),
          HasSubstr("--train-iters"),
          Not(HasSubstr("--num-layers"))));
  const Result other = generate(flags + two + Words{"--num-layers", "3"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(
      other.err,
      HasSubstr("is another than the flags describe (layers 2 there, 3 here)"));
}

TEST_F(Generate, LoadsOtherFormatsWithTheTokenizerBesideThem) {
  pretrain_test::succeed(pretrain_test::cairn(
      {"convert",
       "--input",
       path("trained"),
       "--output",
       path("hf"),
       "--to",
       "huggingface",
       "--tokenizer",
       path("bpe")}));
  const Words few{"--num-samples", "2", "--out-seq-length", "6"};
  const Result ours = generate(few);
  const Result theirs =
      run(pretrain_test::cairn(Words{"generate", "--load", path("hf")} + few));
  EXPECT_EQ(theirs.code, 0) << theirs.err;
  EXPECT_EQ(ours.out, theirs.out);
}

TEST_F(Generate, RefusesWhatCannotBe) {
  const auto refusal = [](const Words& more) {
    const Result result = generate(more);
    EXPECT_EQ(result.code, 2) << result.out;
    return result.err;
  };
  EXPECT_THAT(
      refusal({"--top_k", "3", "--top_p", "0.5"}),
      HasSubstr("--top_k"));
  EXPECT_THAT(
      refusal({"--genfile", "x"}),
      HasSubstr("say how many with --num-samples"));
  EXPECT_THAT(
      refusal({"--num-samples", "1", "--sample-input-file", "x"}),
      HasSubstr("--sample-input-file"));
  EXPECT_THAT(
      refusal({"--sample-output-file", "x"}),
      HasSubstr("--sample-input-file"));
  const std::string same = written("same.txt", "a\n");
  EXPECT_THAT(
      refusal({"--sample-input-file", same, "--sample-output-file", same}),
      HasSubstr("the output would replace the input"));
  EXPECT_THAT(
      refusal({"--port", "80"}),
      HasSubstr("generate does not act on these flags (--port)"));
  EXPECT_THAT(refusal({"--num-sample", "1"}), HasSubstr("--num-samples"));

  const auto bare = [](const Words& more) {
    return run(pretrain_test::cairn(Words{"generate"} + more)).err;
  };
  EXPECT_THAT(
      bare({"--num-samples", "1"}),
      HasSubstr("no checkpoint is named"));
  EXPECT_THAT(
      bare({"--load", path("trained")}),
      HasSubstr("no tokenizer is named, and none lies beside the weights"));
  const Result ranks = run(launched({"generate", "--load", "x"}));
  EXPECT_THAT(ranks.err, HasSubstr("text is generated by one rank (2 ranks)"));
}

} // namespace
} // namespace cairn::cli::generate_test
