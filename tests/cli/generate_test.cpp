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

  // The screen shows the same texts, one at a time.
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

/// Runs the command with a file as its standard input.
Result fed(const Words& words, const std::string& file) {
  std::string line;
  for (const std::string& word : words) {
    line += "'" + word + "' ";
  }
  return run({"bash", "-c", line + "< '" + file + "'"});
}

/// Prompts with their continuations, as a conversation shows them.
std::string conversation(const std::vector<nlohmann::json>& texts) {
  std::string all;
  for (const auto& text : texts) {
    all += text.at("prompt").get<std::string>() +
        text.at("text").get<std::string>() + "\n";
  }
  return all;
}

TEST_F(Generate, AConversationSaysWhatAFileGets) {
  const std::string prompts =
      written("ask.txt", "\xef\xbb\xbfOnce upon\r\n\nThe king\nA\n");
  for (const Words& tokenizer : std::vector<Words>{
           {},
           // The tokenizer's bytes become characters only in the end.
           {"--tokenizer-model",
            CAIRN_GOLDEN_DIR "/tokenizers/sentencepiece/bpe.model",
            "--load",
            path("bytes")}}) {
    if (!tokenizer.empty()) {
      Words training = gpt(1);
      training = training +
          Words{"--save", path("bytes"), "--eval-iters", "0"} + tokenizer;
      training.resize(training.size() - 2); // without --load
      pretrain_test::succeed(pretrain_test::cairn(
          {"preprocess",
           "--input",
           path("stories.jsonl"),
           "--output-prefix",
           path("gpt"),
           "--tokenizer-model",
           tokenizer[1],
           "--append-eod",
           "--overwrite"}));
      pretrain_test::succeed(pretrain_test::cairn(training));
    }
    const Words how = tokenizer + Words{"--temperature", "20"};
    ASSERT_EQ(generate(how + Words{"--sample-input-file", prompts}).code, 0);
    const auto texts = objects("ask.txt.out");
    ASSERT_EQ(texts.size(), 3U);
    const Result said = fed(words(how), prompts);
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(said.out, conversation(texts));
  }
}

/// The golden model's texts are the same on every machine.
TEST_F(Generate, AsksForPromptsOnATerminal) {
  Command command(
      pretrain_test::cairn(
          {"generate",
           "--load",
           CAIRN_GOLDEN_DIR "/models/gpt2",
           "--tokenizer-type",
           "NullTokenizer",
           "--vocab-size",
           "511",
           "--out-seq-length",
           "4",
           "--greedy"}),
      {},
      Command::Streams::terminal);
  command.wait_for("prompt> ");
  command.type("\nwords\n");
  command.wait_for("prompt:2: ");
  command.type("63 218 33 184 481\n");
  command.wait_for("63 218 33 184 481 67 1 1 1\r\n");
  command.type("stop\n");
  EXPECT_EQ(command.finish().code, 0);
}

TEST_F(Generate, NamesTheLineOfAPromptThatNothingCanFollow) {
  const std::string prompts =
      written("pipe.txt", "short\n" + std::string(400, 'x') + "\n");
  const Result result = fed(words({"--out-seq-length", "2"}), prompts);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("prompt:2: the prompt leaves no room"));
  EXPECT_THAT(result.out, StartsWith("short"));
}

TEST_F(Generate, WhatFailsLeavesFilesAsTheyWere) {
  written("kept.json", "something\n");
  const Words one{"--num-samples", "1", "--genfile"};
  EXPECT_THAT(
      generate(one + Words{path("kept.json"), "--seq-length", "1"}).err,
      HasSubstr("--seq-length: leaves no room for a text (1)"));
  EXPECT_EQ(text_of("kept.json"), "something\n");
  EXPECT_THAT(
      generate(one + Words{path("new.json"), "--load", path("nothing")}).err,
      HasSubstr("nothing"));
  EXPECT_FALSE(fs::exists(path("new.json")));
  const Result bert = generate(
      one +
      Words{path("kept.json"), "--load", CAIRN_GOLDEN_DIR "/models/bert"});
  EXPECT_EQ(bert.code, 2);
  EXPECT_THAT(bert.err, HasSubstr("from left to right (bert)"));
  EXPECT_EQ(text_of("kept.json"), "something\n");
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
  EXPECT_EQ(
      generate(
          two +
          Words{
              "--max-position-embeddings",
              "32",
              "--tensor-model-parallel-size",
              "2",
              "--pipeline-model-parallel-size",
              "2",
              "--sequence-parallel"})
          .code,
      0)
      << "a part of the flags, and those of four ranks";
  const Result other = generate(two + Words{"--num-layers", "3"});
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

/// `cairn generate --prompt-ids` with the golden GPT-2, and the object that it
/// prints.
Result after_ids(const Words& more) {
  return run(pretrain_test::cairn(
      Words{
          "generate",
          "--load",
          CAIRN_GOLDEN_DIR "/models/gpt2",
          "--prompt-ids",
          "63,218,33,184,481",
          "--out-seq-length",
          "6"} +
      more));
}
nlohmann::json ids_after(const Words& more) {
  const Result result = after_ids(more);
  EXPECT_EQ(result.code, 0) << result.err;
  return nlohmann::json::parse(result.out);
}

TEST_F(Generate, GoesFromIdsToIdsWithoutATokenizer) {
  const auto greedy = ids_after({"--greedy"});
  EXPECT_EQ(
      greedy.dump(),
      R"({"finished":false,"ids":[67,1,1,1,1,1],)"
      R"("prompt_ids":[63,218,33,184,481]})");
  EXPECT_EQ(ids_after({"--top_k", "0", "--top_p", "0"}), greedy);
  EXPECT_EQ(ids_after({"--greedy", "--recompute"}), greedy);
  const auto stopped = ids_after({"--greedy", "--stop-token-ids", "9", "1"});
  EXPECT_EQ(stopped.at("ids").dump(), "[67]");
  EXPECT_TRUE(stopped.at("finished"));
  const auto scored = ids_after(
      {"--greedy",
       "--return-log-probs",
       "--top-n-logprobs",
       "2",
       "--weight-type",
       "int8"});
  ASSERT_EQ(scored.at("log_probs").size(), scored.at("ids").size());
  EXPECT_EQ(scored.at("prompt_log_probs").size(), 4U);
  EXPECT_EQ(scored.at("top_prompt_log_probs").size(), 4U);
  EXPECT_EQ(scored.at("top_log_probs")[0].size(), 2U);
  EXPECT_EQ(scored.at("top_log_probs")[0][0][0], scored.at("ids")[0]);
  EXPECT_EQ(scored.at("top_log_probs")[0][0][1], scored.at("log_probs")[0]);
  EXPECT_LT(scored.at("log_probs")[0], 0);
  EXPECT_NE(
      ids_after({"--repetition-penalty", "100", "--greedy"}).at("ids"),
      greedy.at("ids"));
  std::istringstream beams(after_ids({"--beam-width", "2"}).out);
  std::vector<double> scores;
  for (std::string line; std::getline(beams, line);) {
    scores.push_back(nlohmann::json::parse(line).at("score"));
  }
  ASSERT_EQ(scores.size(), 2U);
  EXPECT_GT(scores[0], scores[1]);
}

TEST_F(Generate, KeepsKeysAndValuesOfModelsWithExperts) {
  pretrain_test::succeed(pretrain_test::cairn(
      gpt(2) +
      Words{"--num-experts", "4", "--topk", "2", "--save", path("experts")}));
  const auto made = [&](const Words& launcher, const Words& more) {
    const Result result = run(pretrain_test::cairn(
        launcher +
        Words{
            "generate",
            "--load",
            path("experts"),
            "--prompt-ids",
            "63,21,33,18,48",
            "--greedy",
            "--out-seq-length",
            "12",
            "--return-log-probs",
            "--genfile",
            path("experts.json")} +
        more));
    EXPECT_EQ(result.code, 0) << result.err;
    return objects("experts.json").at(0);
  };
  const auto kept = made({}, {});
  const auto anew = made({}, {"--recompute"});
  const auto shared = made(
      {"launch", "--num_gpus", "2"},
      {"--tensor-model-parallel-size", "2", "--device", "cpu"});
  EXPECT_EQ(kept.at("ids").size(), 12U);
  for (const auto& other : {anew, shared}) {
    EXPECT_EQ(other.at("ids"), kept.at("ids"));
    for (const char* name : {"log_probs", "prompt_log_probs"}) {
      ASSERT_EQ(other.at(name).size(), kept.at(name).size());
      for (std::size_t i = 0; i < kept.at(name).size(); ++i) {
        EXPECT_NEAR(
            other.at(name)[i].get<double>(),
            kept.at(name)[i].get<double>(),
            1e-4);
      }
    }
  }
  made({}, {"--weight-type", "int8"});
  const Result plan = run(pretrain_test::cairn(
      {"generate", "--load", path("experts"), "--dry-run=1GB"}));
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("tokens"));
}

TEST_F(Generate, EndsAtWordsAndSearchesWithBeams) {
  const std::string input = written("stories.txt", "Once upon a time\n");
  const auto made = [&](const Words& more) {
    const Result result = generate(
        Words{"--sample-input-file", input, "--out-seq-length", "12"} + more);
    EXPECT_EQ(result.code, 0) << result.err;
    return objects("stories.txt.out").at(0);
  };
  const auto whole = made({"--greedy", "--return-log-probs"});
  const auto text = whole.at("text").get<std::string>();
  EXPECT_EQ(whole.at("log_probs").size(), whole.at("length"));
  const std::string stop = text.substr(text.size() / 2, 2);
  const auto cut = made({"--greedy", "--stop", stop, "no such words"});
  EXPECT_EQ(cut.at("text"), text.substr(0, text.find(stop)));
  EXPECT_TRUE(cut.at("finished"));
  EXPECT_FALSE(cut.contains("log_probs"));
  const auto beams = made({"--beam-width", "3", "--length-penalty", "0.5"});
  EXPECT_FALSE(beams.at("text").get<std::string>().empty());
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
  EXPECT_THAT(
      refusal({"--beam-width", "2", "--temperature", "0.5"}),
      HasSubstr("--temperature: does not go with beam search"));
  EXPECT_THAT(
      refusal({"--length-penalty", "2"}),
      HasSubstr("add --beam-width"));
  EXPECT_THAT(
      refusal({"--return-log-probs"}),
      HasSubstr("log-probabilities are written to files only"));
  EXPECT_THAT(
      refusal({"--prompt-ids", "1,2", "--stop", "x"}),
      HasSubstr("--stop-token-ids"));
  EXPECT_THAT(
      refusal({"--prompt-ids", "5,,3"}),
      HasSubstr("--prompt-ids: token ids are numbers with commas"));

  const auto bare = [](const Words& more) {
    return run(pretrain_test::cairn(Words{"generate"} + more)).err;
  };
  EXPECT_THAT(
      bare({"--num-samples", "1"}),
      HasSubstr("no checkpoint is named"));
  EXPECT_THAT(
      bare({"--load", path("trained")}),
      HasSubstr("no tokenizer is named, and none lies beside the weights"));
  EXPECT_THAT(
      run(pretrain_test::cairn(
              {"generate",
               "--load",
               path("trained"),
               "--vocab-file",
               CAIRN_GOLDEN_DIR "/tokenizers/bert/vocab-uncased.txt",
               "--num-samples",
               "1"}))
          .err,
      HasSubstr("words there, 30522 in the tokenizer"));
  const Result ranks = run(launched({"generate", "--load", "x"}));
  EXPECT_THAT(ranks.err, HasSubstr("1 x 1 parts, 2 ranks"));
}

} // namespace
} // namespace cairn::cli::generate_test
