// The commands of docs/converting.md, docs/curriculum.md, docs/elasticity.md,
// docs/evaluating.md, docs/generating.md, docs/inspecting-checkpoints.md,
// docs/probe.md and docs/serving.md, run as printed, in a folder that has the
// files that they name. The code of docs/models.md is compared with its
// example.

#include "support/command.h"
#include "support/docs_blocks.h"
#include "support/http_server.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace cairn::testing::docs_examples_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> blocks_of(
    const std::string& page,
    const std::string& kind) {
  return testing::blocks_of(fs::path(CAIRN_SOURCE_DIR "/docs") / page, kind);
}

/// A folder to run commands in.
class DocsExamples : public ::testing::Test {
 protected:
  std::string in_folder(const std::string& line) const {
    return "cd '" + folder_.path().string() +
        "'; export PATH='" CAIRN_BINARY_DIR "/bin':$PATH\n" + line;
  }
  Result shell(const std::string& line) const {
    return run({"bash", "-ec", in_folder(line)});
  }
  void prepare(const std::string& line) const {
    const Result result = shell(line);
    ASSERT_EQ(result.code, 0) << line << "\n" << result.err;
  }
  void SetUp() override {
    prepare("mkdir tests; ln -s '" CAIRN_GOLDEN_DIR "' tests/golden");
  }

  TemporaryFolder folder_;
};

/// Trains a small GPT with a tokenizer.
const char* const small_gpt =
    "cairn data sample-corpus --output s.jsonl --size 100KB --workers 1\n"
    "cairn train-tokenizer s.jsonl bpe --vocab-size 300\n"
    "cp bpe/tokenizer.json .\n"
    "cairn preprocess --input s.jsonl --output-prefix s --tokenizer-model "
    "tokenizer.json --append-eod\n"
    "cairn pretrain gpt --num-layers 1 --hidden-size 16 "
    "--num-attention-heads 2 --seq-length 32 --micro-batch-size 1 "
    "--train-iters 1 --eval-iters 0 --split 1,0,0 --lr 1e-3 --data-path "
    "s_text_document --tokenizer-model tokenizer.json --save checkpoints\n";

TEST_F(DocsExamples, OfConvertingWork) {
  prepare(
      "mkdir run; cp -rL tests/golden/checkpoints/deepspeed_z3_bf16_w2 "
      "run/checkpoints\n"
      "cairn convert --input tests/golden/models/gpt2 --output "
      "checkpoints/ds_gpt --to deepspeed\n"
      "cairn convert --input tests/golden/models/gpt2 --output "
      "checkpoints/gpt_345m --to megatron --tensor-model-parallel-size 2\n"
      "mkdir trained; cd trained\n" +
      std::string(small_gpt) + "mv checkpoints ../run/gpt");
  const auto blocks = blocks_of("converting.md", "sh");
  ASSERT_GE(blocks.size(), 4U);
  for (const std::string& block : blocks) {
    const Result result = shell(block);
    EXPECT_EQ(result.code, 0) << block << result.err;
    EXPECT_THAT(result.out, HasSubstr("\nwrote ")) << block;
  }
}

TEST_F(DocsExamples, OfInspectingShowWhatThePageShows) {
  prepare("cairn launch --num_gpus 2 '" DRILL_TRAINER
          "' ckpt 5 weights.safetensors");
  const auto blocks = blocks_of("inspecting-checkpoints.md", "");
  ASSERT_EQ(blocks.size(), 4U);
  for (const std::string& block : blocks) {
    std::istringstream lines(block);
    std::string command;
    std::getline(lines, command);
    ASSERT_TRUE(command.starts_with("$ cairn checkpoint ")) << command;
    const Result result = shell(command.substr(2));
    const bool differ = command.find(" diff ") != std::string::npos;
    EXPECT_EQ(result.code, differ ? 1 : 0) << command << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("cairn: "))) << command;
    // Times and numbers differ; the subject of each line does not.
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string first;
      words >> first;
      EXPECT_THAT(result.out, HasSubstr(first)) << command << "\n" << line;
    }
  }
  for (const std::string& block :
       blocks_of("inspecting-checkpoints.md", "sh")) {
    const Result result = shell(block);
    EXPECT_EQ(result.code, 0) << block << result.out << result.err;
  }
}

/// Expects that a page shows what each "$ command" prints, for all its blocks
/// of that kind; ds.json is the page's own.
void expect_shown(
    const std::string& page,
    std::size_t count,
    const std::function<Result(const std::string& line)>& shell) {
  const auto blocks = blocks_of(page, "");
  ASSERT_EQ(blocks.size(), count);
  for (const std::string& block : blocks) {
    const std::size_t end = block.find('\n');
    ASSERT_TRUE(block.starts_with("$ cairn ")) << block;
    const std::string shown = block.substr(end + 1);
    const Result result = shell(block.substr(2, end - 2));
    EXPECT_EQ(result.code, shown.starts_with("cairn: ") ? 2 : 0) << block;
    EXPECT_THAT(result.out + result.err, HasSubstr(shown)) << block;
  }
}

TEST_F(DocsExamples, OfCurriculaAndElasticBatchesShowWhatThePagesShow) {
  for (const auto& [page, count] :
       {std::pair{"curriculum.md", 2}, std::pair{"elasticity.md", 2}}) {
    const auto settings = blocks_of(page, "json");
    ASSERT_EQ(settings.size(), page == std::string("curriculum.md") ? 2U : 1U);
    folder_.write("ds.json", settings.front());
    folder_.write("ltd.json", settings.back());
    expect_shown(
        page,
        static_cast<std::size_t>(count),
        [&](const std::string& line) { return shell(line); });
  }
}

/// The tokens of tests/golden/training as a safetensors file.
std::string golden_steps() {
  const std::string numbers =
      read_text(fs::path(CAIRN_GOLDEN_DIR) / "training/data.npy");
  const std::size_t bytes = 30 * 4 * 33 * sizeof(std::int32_t);
  const std::string header =
      R"({"data": {"dtype": "I32", "shape": [30, 4, 33], "data_offsets": [0, )" +
      std::to_string(bytes) + "]}}";
  std::string file;
  for (std::size_t shift = 0; shift < 64; shift += 8) {
    file += static_cast<char>(header.size() >> shift & 0xff);
  }
  return file + header + numbers.substr(numbers.size() - bytes);
}

TEST_F(DocsExamples, OfProbeWork) {
  const auto settings = blocks_of("probe.md", "json");
  ASSERT_EQ(settings.size(), 1U);
  folder_.write("ds.json", settings.front());
  folder_.write("steps.safetensors", golden_steps());
  const auto blocks = blocks_of("probe.md", "sh");
  ASSERT_EQ(blocks.size(), 2U);
  const Result once = shell(blocks[0]);
  EXPECT_EQ(once.code, 0) << once.err;
  EXPECT_THAT(once.out, HasSubstr("\nloss                     6.52"));
  EXPECT_THAT(once.out, HasSubstr("\nlogits                   at most "));
  EXPECT_THAT(once.out, HasSubstr("\nwrote out.safetensors, 32 tensors\n"));
  const Result trained = shell(blocks[1]);
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("[0]     0        0.001     6.54078"));
  EXPECT_THAT(trained.out, HasSubstr("\n[0]    29        0.001 "));
  EXPECT_THAT(
      trained.out,
      HasSubstr("\n[0] wrote run.safetensors, 60 tensors\n"));
}

TEST_F(DocsExamples, OfServingWork) {
  prepare(small_gpt);
  const auto blocks = blocks_of("serving.md", "sh");
  ASSERT_EQ(blocks.size(), 3U);
  const std::string port = std::to_string(unused_port());
  const auto with_port = [&](std::string text) {
    for (auto at = text.find("5000"); at != text.npos; at = text.find("5000")) {
      text.replace(at, 4, port);
    }
    return text;
  };
  Command serving({"bash", "-ec", in_folder("exec " + with_port(blocks[0]))});
  serving.wait_for(" until Ctrl-C");
  const Result asked = shell(with_port(blocks[1]));
  EXPECT_EQ(asked.code, 0) << asked.err;
  EXPECT_THAT(asked.out, HasSubstr("\"text\":[\"Once upon a time"));
  const Result chat = shell(
      "printf 'Once upon a time\\nx\\n5\\n' | cairn chat localhost:" + port);
  EXPECT_EQ(chat.code, 0) << chat.err;
  EXPECT_THAT(
      chat.out,
      AllOf(
          HasSubstr("A whole number above 0."),
          HasSubstr("Megatron Response: \nOnce upon a time")));
  serving.send(SIGTERM);
  const Result ended = serving.finish();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("/api 200: 1 text, "));

  // T5, in the block after Megatron's request.
  prepare("cp -rL tests/golden/models/t5_relu t5-hf; cp tokenizer.json t5-hf");
  const std::string& both = blocks.back();
  const std::size_t request = both.find("curl");
  const std::string other = std::to_string(unused_port());
  Command of_t5(
      {"bash",
       "-ec",
       in_folder("exec " + both.substr(0, request - 1) + " --port " + other)});
  of_t5.wait_for(" until Ctrl-C");
  std::string question = both.substr(request);
  question.replace(question.find("5000"), 4, other);
  const Result answer = shell(question);
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("\"text\":[\""));
}

TEST_F(DocsExamples, OfGeneratingWork) {
  prepare(
      small_gpt +
      std::string("printf 'Once upon a time\\nThe king\\n' > prompts.txt\n"
                  "ln -s tests/golden/models/gpt2 gpt2-hf\n"
                  "ln -s tests/golden/models/t5_relu t5-hf"));
  const auto blocks = blocks_of("generating.md", "sh");
  ASSERT_EQ(blocks.size(), 7U);
  std::string out;
  for (const std::string& block : blocks) {
    const Result result = shell(block);
    EXPECT_EQ(result.code, 0) << block << result.err;
    out += result.out;
  }
  EXPECT_TRUE(out.starts_with("Once upon a time")) << out;
  EXPECT_THAT(out, HasSubstr(blocks_of("generating.md", "json").at(1)));
  EXPECT_THAT(out, HasSubstr(blocks_of("generating.md", "").at(0)));
  const auto lines = [&](const char* name) {
    return std::ranges::count(read_text(folder_.path() / name), '\n');
  };
  EXPECT_EQ(lines("samples.json"), 2);
  EXPECT_EQ(lines("prompts.txt.out"), 2);
}

TEST_F(DocsExamples, OfEvaluatingShowWhatThePageShows) {
  prepare("cp -rL tests/golden/evaluation/model gpt2-hf\n"
          "cp tests/golden/tokenizers/train/own600-tokenizer.json "
          "gpt2-hf/tokenizer.json\n"
          "cp tests/golden/evaluation/wiki.test.tokens .\n"
          "cp tests/golden/evaluation/lambada.jsonl lambada_test.jsonl\n"
          "cp tests/golden/evaluation/hellaswag.jsonl hellaswag_val.jsonl\n"
          "cp tests/golden/evaluation/stories.jsonl notes.jsonl\n"
          "cp wiki.test.tokens held-out.txt\n"
          "cp -r gpt2-hf checkpoints; cp gpt2-hf/tokenizer.json .");
  expect_shown("evaluating.md", 1, [&](const std::string& line) {
    return shell(line);
  });
  const auto blocks = blocks_of("evaluating.md", "sh");
  ASSERT_EQ(blocks.size(), 5U);
  for (const std::string& block : blocks) {
    const Result result = shell(block);
    EXPECT_EQ(result.code, 0) << block << result.err;
    EXPECT_THAT(result.out, HasSubstr(" validation results on ")) << block;
  }
  EXPECT_TRUE(read_text(folder_.path() / "lambada.json")
                  .starts_with(blocks_of("evaluating.md", "json").at(0)));
}

std::string without_blanks(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  return text;
}

TEST(DocsExamplesOfModels, AreTheExampleProgram) {
  const std::string program = without_blanks(
      read_text(fs::path(CAIRN_SOURCE_DIR) / "examples/models/models.cpp"));
  const auto blocks = blocks_of("models.md", "cpp");
  ASSERT_EQ(blocks.size(), 4U);
  for (const std::string& block : blocks) {
    std::istringstream lines(block);
    std::string code;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("#include")) {
        EXPECT_THAT(program, HasSubstr(without_blanks(line)));
      } else {
        code += line;
      }
    }
    EXPECT_THAT(program, HasSubstr(without_blanks(code))) << block;
  }
}

} // namespace
} // namespace cairn::testing::docs_examples_test
