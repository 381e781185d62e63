// The training scripts of Megatron-LM as they are: at their own sizes up to the
// plan, and trained with small sizes put behind.

#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace cairn::testing::peer_scripts_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

const fs::path golden = CAIRN_GOLDEN_DIR;
const std::string program = CAIRN_BINARY_DIR "/bin/cairn";

struct Script {
  std::string name;
  std::string kind;
  std::string ranks;
  std::string plan; ///< a part of what --dry-run says
};

const std::vector<Script> scripts{
    {"megatron-gpt3-175b",
     "gpt",
     "1024",
     "effective batch 1536 = 1 per rank x 192 accumulation x 8 data-parallel, "
     "from 16 samples on"},
    {"megatron-bert-340m", "bert", "128", "1 data x 16 pipeline x 8 tensor"},
    {"megatron-t5-220m", "t5", "8", "8 data x 1 pipeline x 1 tensor"},
    {"megatron-llama3-8b", "gpt", "8", "gpt, 8030261248 parameters"},
    {"megatron-llama3-8b-fsdp",
     "gpt",
     "8",
     "ranks:      8 = 8 data x 1 pipeline x 1 tensor, ZeRO stage 3"},
    {"megatron-mixtral-8x7b",
     "gpt",
     "32",
     "8 data x 4 pipeline x 1 tensor, 8 of them sharing out experts"}};

const Words small{
    "--num-layers",
    "2",
    "--hidden-size",
    "16",
    "--ffn-hidden-size",
    "32",
    "--num-attention-heads",
    "2",
    "--kv-channels",
    "8",
    "--seq-length",
    "32",
    "--max-position-embeddings",
    "64",
    "--make-vocab-size-divisible-by",
    "1",
    "--micro-batch-size",
    "1",
    "--global-batch-size",
    "2",
    "--tensor-model-parallel-size",
    "1",
    "--pipeline-model-parallel-size",
    "1",
    "--distributed-backend",
    "gloo",
    "--exit-interval",
    "2",
    "--split",
    "80,10,10",
    "--eval-interval",
    "2",
    "--eval-iters",
    "1",
    "--log-interval",
    "1"};

class PeerScripts : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path tokenizers = golden / "tokenizers";
    link(tokenizers / "gpt2/vocab.json", "vocab.json");
    link(tokenizers / "gpt2/merges.txt", "merges.txt");
    link(tokenizers / "bert/vocab-uncased.txt", "vocab.txt");
    link(tokenizers / "sentencepiece/bpe.model", "tokenizer.model");
  }
  void link(const fs::path& target, const std::string& name) const {
    fs::create_symlink(target, folder_.path() / name);
  }
  Result shell(const std::string& line) const {
    return run(
        {"bash",
         "-ec",
         "cd '" + folder_.path().string() +
             "'; export PATH='" CAIRN_BINARY_DIR "/bin':$PATH\n" + line});
  }
  /// Writes the flags of a script into the folder.
  void take(const Script& script) const {
    folder_.write(
        "flags",
        read_text(golden / "command_lines" / (script.name + ".flags")));
  }

  TemporaryFolder folder_;
};

TEST_F(PeerScripts, AreTrainingsThatCanBeAtTheirOwnSizes) {
  for (const Script& script : scripts) {
    take(script);
    const Result result = shell(
        "cairn pretrain " + script.kind + " @flags --dry-run=" + script.ranks);
    EXPECT_EQ(result.code, 0) << script.name << "\n" << result.err;
    EXPECT_THAT(result.out, HasSubstr(script.plan)) << script.name;
    EXPECT_THAT(result.out, HasSubstr(" has no effect: ")) << script.name;
  }
}

TEST_F(PeerScripts, TrainSmallModels) {
  std::string behind;
  for (const std::string& word : small) {
    behind += " " + word;
  }
  const Result corpus = shell(
      "cairn data sample-corpus --output text.jsonl --size 100KB --workers 1");
  ASSERT_EQ(corpus.code, 0) << corpus.err;
  const std::string preprocess =
      "cairn preprocess --input text.jsonl --output-prefix ";
  for (const std::string& line :
       {preprocess +
            "gpt --vocab-file vocab.json --merge-file merges.txt "
            "--tokenizer-type GPT2BPETokenizer --append-eod",
        preprocess +
            "llama --tokenizer-model tokenizer.model "
            "--tokenizer-type Llama2Tokenizer --append-eod",
        preprocess +
            "words --vocab-file vocab.txt --tokenizer-type "
            "BertWordPieceLowerCase --split-sentences"}) {
    const Result made = shell(line);
    ASSERT_EQ(made.code, 0) << line << "\n" << made.err;
  }
  for (const Script& script : scripts) {
    take(script);
    std::string more = behind;
    const bool llama = script.name.starts_with("megatron-llama3-8b");
    if (!llama) { // whose length is in samples
      more += " --train-iters 2";
    }
    if (script.name == "megatron-gpt3-175b") {
      more +=
          " --step-batch-size-schedule 0:1 32:2 --data-path gpt_text_document";
    } else if (script.name == "megatron-mixtral-8x7b") {
      more += " --num-experts 2 --expert-model-parallel-size 1 "
              "--num-query-groups 1 "
              "--data-path llama_text_document";
    } else if (llama) {
      // fp8 and NCCL are for GPUs, a vocabulary of 128256 for larger models.
      more += " --num-query-groups 1 --vocab-size 256";
    } else {
      more += " --data-path words_text_sentence";
    }
    if (script.kind == "t5") {
      more += " --encoder-num-layers 1 --decoder-num-layers 1 "
              "--encoder-seq-length 32 --decoder-seq-length 16 "
              "--tokenizer-type BertWordPieceLowerCase";
    }
    std::string start = "rm -rf checkpoints tensorboard; ";
    if (llama) {
      start += "sed -i '/^--fp8-/d; /^--use-nccl-ub/d' flags; ";
    }
    const Result result =
        shell(start + "cairn pretrain " + script.kind + " @flags" + more);
    EXPECT_EQ(result.code, 0) << script.name << "\n" << result.err;
    EXPECT_THAT(
        result.out,
        AllOf(HasSubstr(" iteration        2/"), HasSubstr("lm loss")))
        << script.name;
  }
}

/// A script of the time of the first GPT-2, which names its corpus.
TEST_F(PeerScripts, ACorpusByItsName) {
  const std::string train =
      "cairn pretrain gpt --num-layers 2 --hidden-size 16 "
      "--num-attention-heads 2 --seq-length 32 --max-position-embeddings 32 "
      "--batch-size 2 --train-iters 2 --lr 1e-4 --warmup .01 --train-data "
      "webtext --lazy-loader --resume-dataloader --cache-dir cache "
      "--tokenizer-type GPT2BPETokenizer --vocab-file vocab.json --merge-file "
      "merges.txt --split 90,5,5 --eval-iters 1 --log-interval 1";
  const Result missing = shell(train);
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(
      missing.err,
      AllOf(
          HasSubstr("--train-data webtext"),
          HasSubstr("data/webtext_text_document"),
          HasSubstr("--output-prefix webtext")));
  const Result made = shell(
      "cairn data sample-corpus --output webtext.jsonl --size 100KB --workers "
      "1; mkdir data; cairn preprocess --input webtext.jsonl --output-prefix "
      "data/webtext --vocab-file vocab.json --merge-file merges.txt "
      "--tokenizer-type GPT2BPETokenizer --append-eod");
  ASSERT_EQ(made.code, 0) << made.err;
  const Result result = shell(train);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(" iteration        2/       2 |"));
}

TEST_F(PeerScripts, TheScheduleOfFlagsOrOfTheCheckpoint) {
  const auto train = [&](const std::string& more) {
    return shell(
        "cairn pretrain gpt --num-layers 1 --hidden-size 16 "
        "--num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 "
        "--micro-batch-size 1 --global-batch-size 1 --mock-data "
        "--tokenizer-type NullTokenizer --vocab-size 100 --log-interval 1 "
        "--eval-iters 0 --lr-decay-style constant --save there --load there " +
        more);
  };
  const Result first =
      train("--lr 0.001 --train-iters 2 --use-checkpoint-opt_param-scheduler");
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("finds no schedule in a checkpoint"));

  const Result flags = train("--lr 0.002 --train-iters 3");
  ASSERT_EQ(flags.code, 0) << flags.err;
  EXPECT_THAT(
      flags.err,
      AllOf(
          HasSubstr("the schedule of the flags is taken, not the checkpoint's: "
                    "max_lr 0.001 there, 0.002 here; lr_decay_steps 2 there, 3 "
                    "here"),
          HasSubstr("(--use-checkpoint-opt_param-scheduler takes")));
  EXPECT_THAT(flags.out, ContainsRegex("learning rate: 2.0*E-0*3 "));

  const Result stored =
      train("--lr 0.003 --train-iters 4 --use-checkpoint-opt_param-scheduler");
  ASSERT_EQ(stored.code, 0) << stored.err;
  EXPECT_THAT(
      stored.err,
      HasSubstr("the checkpoint's schedule is taken, not that of the flags: "
                "max_lr 0.002 there, 0.003 here"));
  EXPECT_THAT(stored.out, ContainsRegex("learning rate: 2.0*E-0*3 "));

  const Result over =
      train("--lr 0.004 --train-iters 5 --override-opt_param-scheduler");
  ASSERT_EQ(over.code, 0) << over.err;
  EXPECT_THAT(
      over.err,
      AllOf(
          HasSubstr("max_lr 0.002 there, 0.004 here"),
          ::testing::Not(HasSubstr("--use-checkpoint-opt_param"))));
  EXPECT_THAT(over.out, ContainsRegex("learning rate: 4.0*E-0*3 "));
}

/// The rank that shows the losses and writes the log.
TEST_F(PeerScripts, LossesOfTheLastRank) {
  const Result result = shell(
      "cairn launch --num_gpus 2 pretrain gpt --num-layers 1 --hidden-size 16 "
      "--num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 "
      "--micro-batch-size 1 --global-batch-size 2 --mock-data --tokenizer-type "
      "NullTokenizer --vocab-size 100 --log-interval 1 --eval-iters 0 --lr "
      "1e-3 "
      "--train-iters 2 --log-rank last --log-jsonl log.jsonl");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, ContainsRegex("\\[1\\].* iteration        2/"));
  EXPECT_THAT(
      result.out,
      ::testing::Not(ContainsRegex("\\[0\\].* iteration        2/")));
  EXPECT_THAT(read_text(folder_ / "log.jsonl"), HasSubstr("lm loss"));
}

} // namespace
} // namespace cairn::testing::peer_scripts_test
