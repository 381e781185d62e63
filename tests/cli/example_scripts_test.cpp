// examples/scripts, each run unchanged, and the smallest one trained.

#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cairn::testing::example_scripts_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

const fs::path scripts = fs::path(CAIRN_SOURCE_DIR) / "examples/scripts";
const std::string program = CAIRN_BINARY_DIR "/bin/cairn";

/// Runs a script unchanged, with the files that it needs.
Result run_script(
    const std::string& name,
    const Words& more,
    std::vector<std::pair<std::string, std::string>> environment = {}) {
  const std::string golden = CAIRN_GOLDEN_DIR "/tokenizers/";
  const bool words = name.find("bert") != std::string::npos ||
      name.find("t5") != std::string::npos;
  environment.insert(
      environment.begin(),
      {{"CAIRN", program},
       {"GPUS_PER_NODE", "4"},
       {"VOCAB_FILE",
        golden + (words ? "bert/vocab-uncased.txt" : "gpt2/vocab.json")},
       {"MERGE_FILE", golden + "gpt2/merges.txt"}});
  Words line{"bash", (scripts / name).string()};
  line.insert(line.end(), more.begin(), more.end());
  return Command(line, environment).finish();
}

TEST(ExampleScripts, DescribeTrainingsThatCanBe) {
  const std::map<std::string, std::string> wanted{
      {"pretrain_gpt2.sh", "ranks:      1 = 1 data x 1 pipeline x 1 tensor"},
      {"pretrain_gpt2_model_parallel.sh",
       "ranks:      4 = 2 data x 1 pipeline x 2 tensor, ZeRO stage 0"},
      {"ds_pretrain_gpt2.sh",
       "ranks:      1 = 1 data x 1 pipeline x 1 tensor, ZeRO stage 2"},
      {"ds_pretrain_gpt2_model_parallel.sh",
       "ranks:      4 = 2 data x 1 pipeline x 2 tensor, ZeRO stage 2"},
      {"pretrain_gpt.sh", "effective batch 8 = 4 per rank x 2"},
      {"pretrain_gpt_distributed.sh", "ranks:      4 = 4 data x 1 pipeline"},
      {"pretrain_gpt_distributed_with_mp.sh",
       "ranks:      4 = 1 data x 2 pipeline x 2 tensor"},
      {"pretrain_bert.sh", "model:      bert, 336"},
      {"pretrain_bert_distributed.sh", "ranks:      4 = 4 data x 1 pipeline"},
      {"pretrain_bert_distributed_with_mp.sh",
       "ranks:      4 = 1 data x 2 pipeline x 2 tensor"},
      {"pretrain_t5.sh", "model:      t5, 22"},
      {"pretrain_t5_distributed.sh", "ranks:      4 = 4 data x 1 pipeline"},
      {"pretrain_t5_distributed_with_mp.sh",
       "ranks:      4 = 2 data x 1 pipeline x 2 tensor"}};
  std::size_t others = 0;
  for (const auto& file : fs::directory_iterator(scripts)) {
    const std::string name = file.path().filename();
    const auto expected = wanted.find(name);
    if (expected == wanted.end()) {
      ++others;
      continue;
    }
    const Result result = run_script(name, {"--dry-run"});
    EXPECT_EQ(result.code, 0) << name << "\n" << result.err;
    EXPECT_THAT(result.out, HasSubstr(expected->second)) << name;
  }
  EXPECT_EQ(others, 7U) << "GPT-3, generation, evaluation, the merge, two "
                           "fine-tunings, and a JSON";
}

TEST(ExampleScripts, WriteASlurmJobForGpt3) {
  const Result job = run_script("pretrain_gpt3_175B.sh", {"--dry-run=1024"});
  ASSERT_EQ(job.code, 0) << job.err;
  EXPECT_THAT(job.out, HasSubstr("#SBATCH --nodes=128\n"));
  const std::size_t begin = job.out.find("pretrain gpt ");
  ASSERT_NE(begin, std::string::npos) << job.out;
  const Result plan =
      run({"bash", "-c", program + " " + job.out.substr(begin)});
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(
      plan.out,
      AllOf(
          HasSubstr(
              "model:      gpt, 174615846912 parameters, vocabulary 50257 "
              "padded to 51200\n"),
          HasSubstr("ranks:      1024 = 8 data x 16 pipeline x 8 tensor"),
          HasSubstr("iterations: 111355, 146484832 samples of 2048 tokens\n"),
          HasSubstr("effective batch 1536 = 1 per rank x 192 accumulation x 8 "
                    "data-parallel, from 16 samples on\n")));
}

/// Stories for the scripts of one kind of model, and the run of one script with
/// a small model.
class ExampleScriptsTrain : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  void make_stories(const Words& how) const {
    succeed(run(
        {program,
         "data",
         "sample-corpus",
         "--output",
         path("stories.jsonl"),
         "--size",
         "100KB",
         "--workers",
         "1"}));
    Words words{
        program,
        "preprocess",
        "--input",
        path("stories.jsonl"),
        "--output-prefix",
        path("stories")};
    words.insert(words.end(), how.begin(), how.end());
    succeed(run(words));
  }
  Result train(const std::string& script, const std::string& data) const {
    return run_script(
        script,
        {"--num-layers",
         "2",
         "--hidden-size",
         "16",
         "--num-attention-heads",
         "2",
         "--seq-length",
         "32",
         "--max-position-embeddings",
         "32",
         "--micro-batch-size", // fp16 is slow on many CPUs
         "1",
         "--global-batch-size",
         "2",
         "--train-iters",
         "2",
         "--split",
         "90,5,5",
         "--eval-iters",
         "1",
         "--log-interval",
         "1"},
        {{"DATA_PATH", path(data)}, {"CHECKPOINT_PATH", path("trained")}});
  }
  /// Converts the trained model for so many tensor parallel ranks.
  void convert_to_megatron(const std::string& name, int ranks) const {
    succeed(run(
        {program,
         "convert",
         "--input",
         path("trained"),
         "--output",
         path(name),
         "--to",
         "megatron",
         "--weights-only",
         "--tensor-model-parallel-size",
         std::to_string(ranks)}));
  }
  static void succeed(const Result& result) {
    ASSERT_EQ(result.code, 0) << result.out << result.err;
  }

  TemporaryFolder folder_;
};

TEST_F(ExampleScriptsTrain, AGpt) {
  const std::string golden = CAIRN_GOLDEN_DIR "/tokenizers/gpt2/";
  make_stories(
      {"--tokenizer-type",
       "GPT2BPETokenizer",
       "--vocab-file",
       golden + "vocab.json",
       "--merge-file",
       golden + "merges.txt",
       "--append-eod"});
  const Result result = train("pretrain_gpt.sh", "stories_text_document");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(" iteration        2/       2 |"));
  EXPECT_TRUE(fs::exists(path("trained/global_step2")));

  // The checkpoint of Cairn, and the same in Megatron's format.
  convert_to_megatron("megatron", 1);
  for (const char* checkpoint : {"trained", "megatron"}) {
    succeed(run_script(
        "generate_text.sh",
        {"--num-layers",
         "2",
         "--hidden-size",
         "16",
         "--num-attention-heads",
         "2",
         "--seq-length",
         "32",
         "--max-position-embeddings",
         "32"},
        {{"CHECKPOINT_PATH", path(checkpoint)},
         {"MAX_OUTPUT_SEQUENCE_LENGTH", "4"},
         {"OUTPUT_FILE", path("samples.json")}}));
    const std::string samples = read_text(path("samples.json"));
    EXPECT_EQ(std::ranges::count(samples, '\n'), 2) << samples;
    EXPECT_THAT(samples, HasSubstr("{\"text\":\""));
  }
  const Words small{
      "--num-layers",
      "2",
      "--hidden-size",
      "16",
      "--num-attention-heads",
      "2",
      "--seq-length",
      "32",
      "--max-position-embeddings",
      "32",
      "--micro-batch-size",
      "2"};
  for (const auto& [task, file] : std::map<std::string, std::string>{
           {"WIKITEXT103", CAIRN_GOLDEN_DIR "/evaluation/wiki.test.tokens"},
           {"LAMBADA", CAIRN_GOLDEN_DIR "/evaluation/lambada.jsonl"}}) {
    const Result evaluated = run_script(
        "evaluate_zeroshot_gpt.sh",
        small,
        {{"GPUS_PER_NODE", "1"},
         {"CHECKPOINT_PATH", path("trained")},
         {"TASK", task},
         {"VALID_DATA", file}});
    EXPECT_EQ(evaluated.code, 0) << evaluated.err;
    EXPECT_THAT(
        evaluated.out,
        HasSubstr(" validation results on " + task + " | "));
  }
}

TEST_F(ExampleScriptsTrain, ABertThatIsMerged) {
  make_stories(
      {"--tokenizer-type",
       "BertWordPieceLowerCase",
       "--vocab-file",
       CAIRN_GOLDEN_DIR "/tokenizers/bert/vocab-uncased.txt",
       "--split-sentences"});
  succeed(train("pretrain_bert.sh", "stories_text_sentence"));
  convert_to_megatron("bert", 2);
  const Result merged = run_script(
      "merge_mp_bert.sh",
      {},
      {{"CHECKPOINT_PATH", path("bert")},
       {"NUM_LAYERS", "2"},
       {"HIDDEN_SIZE", "16"},
       {"NUM_ATTENTION_HEADS", "2"},
       {"SEQ_LENGTH", "32"}});
  EXPECT_EQ(merged.code, 0) << merged.err;
  EXPECT_TRUE(
      fs::exists(path("bert/merged/latest_checkpointed_iteration.txt")));
}

} // namespace
} // namespace cairn::testing::example_scripts_test
