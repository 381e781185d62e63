// Every command in the right columns of docs/coming-from-*.md, run as printed
// in a folder that has the files that it names. Two things are made smaller: a
// model that `pretrain` trains and `generate` and `evaluate` load, and a world
// larger than this machine, for which the launcher shows what it would start.

#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace cairn::testing::coming_from_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// The cells of a row of a table.
Words cells_of(const std::string& line) {
  Words cells;
  std::istringstream text(line.substr(1));
  for (std::string cell; std::getline(text, cell, '|');) {
    cells.push_back(cell);
  }
  return cells;
}

/// The texts in backticks that begin with "cairn ".
Words commands_in(const std::string& cell) {
  Words commands;
  std::istringstream text(cell);
  bool code = false;
  for (std::string part; std::getline(text, part, '`'); code = !code) {
    if (code && part.starts_with("cairn ")) {
      commands.push_back(part);
    }
  }
  return commands;
}

/// The commands of tables whose second column is Cairn's, in their order. A
/// text with an ellipsis is no whole command.
Words commands_of(const std::string& page) {
  Words commands;
  std::istringstream text(
      read_text(fs::path(CAIRN_SOURCE_DIR) / "docs" / page));
  bool ours = false;
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("|")) {
      ours = false;
      continue;
    }
    const Words cells = cells_of(line);
    if (cells.size() >= 2 && cells[1] == " Cairn ") {
      ours = true;
    } else if (ours && cells.size() >= 2) {
      for (const std::string& command : commands_in(cells[1])) {
        if (command.find("…") == std::string::npos &&
            command != "cairn pretrain gpt") {
          commands.push_back(command);
        }
      }
    }
  }
  return commands;
}

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/// The number behind a launcher's flag; 1 if the flag is missing.
int number_behind(const std::string& command, const std::string& flag) {
  const auto at = command.find(flag + " ");
  return at == std::string::npos
      ? 1
      : std::stoi(command.substr(at + flag.size() + 1));
}

int ranks_of(const std::string& command) {
  return number_behind(command, "--num_gpus") *
      number_behind(command, "--nproc_per_node") *
      number_behind(command, "--nnodes");
}

/// The lines to run for a command. A training is checked as printed, on as many
/// ranks as it asks for, and then run small on one.
Words lines_for(const std::string& command) {
  const std::string launcher = "cairn launch ";
  Words lines;
  std::string rest = command;
  if (command.starts_with(launcher) && !has(command, "--print-")) {
    const bool trains = has(command, " pretrain ");
    const bool elsewhere =
        has(command, "--hostfile") || has(command, "--num_nodes");
    if (!trains && !elsewhere) {
      return {command};
    }
    lines.push_back(launcher + "--dry-run " + command.substr(launcher.size()));
    if (!trains) {
      return lines;
    }
    rest = "cairn" + command.substr(command.find(" pretrain "));
  }
  const std::string pretrain = "cairn pretrain ";
  if (rest.starts_with(pretrain)) {
    lines.push_back(
        "cairn config check " + rest.substr(pretrain.size()) +
        " --world-size " + std::to_string(ranks_of(command)));
    rest += " --num-layers 2 --hidden-size 64 --num-attention-heads 4 "
            "--micro-batch-size 2 --global-batch-size 2 --train-iters 1 "
            "--lr-decay-iters 2 --eval-iters 1 --tensor-model-parallel-size 1 "
            "--pipeline-model-parallel-size 1 --max-position-embeddings 64 "
            "--split 90,5,5";
    rest += has(rest, " t5 ")
        ? " --encoder-seq-length 64 --decoder-seq-length 32"
        : " --seq-length 64";
  }
  if (rest.starts_with("cairn generate ") ||
      rest.starts_with("cairn evaluate ")) { // use the model trained before
    rest += " --num-layers 2 --hidden-size 64 --num-attention-heads 4 "
            "--max-position-embeddings 64 --seq-length 64";
  }
  lines.push_back(rest);
  return lines;
}

class ComingFrom : public ::testing::Test {
 protected:
  Result shell(const std::string& line) const {
    return run(
        {"bash",
         "-ec",
         "cd '" + folder_.path().string() +
             "'; export PATH='" CAIRN_BINARY_DIR "/bin':$PATH\n" + line});
  }
  void prepare(const std::string& line) const {
    const Result result = shell(line);
    ASSERT_EQ(result.code, 0) << line << "\n" << result.out << result.err;
  }
  void run_page(const std::string& page, std::size_t least) const {
    const Words commands = commands_of(page);
    EXPECT_GE(commands.size(), least);
    for (const std::string& command : commands) {
      for (const std::string& line : lines_for(command)) {
        const Result result = shell(line);
        EXPECT_EQ(result.code, 0) << line << "\n" << result.out << result.err;
      }
    }
  }

  TemporaryFolder folder_;
};

TEST_F(ComingFrom, DeepSpeedsCommandsRun) {
  prepare("mkdir run; cp -rL '" CAIRN_GOLDEN_DIR
          "/checkpoints/deepspeed_z3_bf16_w2' checkpoints\n"
          "cp '" CAIRN_SOURCE_DIR "/examples/any_stage/stage3.json' ds.json\n"
          "ln -s '" CAIRN_BINARY_DIR "/bin/any_stage_example' train\n"
          "printf 'worker-0 slots=8\\nworker-1 slots=8\\n' > hosts");
  run_page("coming-from-deepspeed.md", 17);
}

TEST_F(ComingFrom, MegatronsCommandsRun) {
  prepare(
      "cairn data sample-corpus --output my-corpus.json --size 200KB --workers "
      "1\n"
      "cairn train-tokenizer my-corpus.json bpe --vocab-size 300\n"
      "cp bpe/vocab.json gpt2-vocab.json; cp bpe/merges.txt gpt2-merges.txt\n"
      "cp '" CAIRN_GOLDEN_DIR
      "/tokenizers/bert/vocab-uncased.txt' bert-vocab.txt\n"
      "mkdir parts checkpoints openwebtext-urls\n"
      "echo https://example.org/page > openwebtext-urls/RS_2018-10.txt\n"
      "cairn preprocess --input my-corpus.json --output-prefix parts/one "
      "--vocab gpt2-vocab.json --merge-file gpt2-merges.txt "
      "--tokenizer-type GPT2BPETokenizer\n"
      "cp -rL '" CAIRN_GOLDEN_DIR
      "/checkpoints/megatron_tp2' checkpoints/gpt_tp2\n"
      "ln -s '" CAIRN_SOURCE_DIR "/recipes' recipes\n"
      "head -c 2000 '" CAIRN_GOLDEN_DIR
      "/evaluation/wiki.test.tokens' > wiki.test.tokens\n"
      "cp '" CAIRN_GOLDEN_DIR "/evaluation/lambada.jsonl' lambada_test.jsonl");
  folder_.write(
      "enwiki.xml",
      "<mediawiki><siteinfo><base>https://en.wikipedia.org/wiki/Main</base>"
      "</siteinfo><page><title>Cairn</title><ns>0</ns><id>1</id><revision>"
      "<id>2</id><text>A '''cairn''' is a heap of stones on a hill, made by "
      "people.</text></revision></page></mediawiki>");
  run_page("coming-from-megatron.md", 20);
}

/// The tables in a page between `<!-- cairn COMMAND -->` and `<!-- end -->`.
TEST_F(ComingFrom, TheTablesAreThoseOfTheProgram) {
  for (const std::string name : {"deepspeed", "megatron"}) {
    const std::string page = read_text(
        fs::path(CAIRN_SOURCE_DIR) / "docs" / ("coming-from-" + name + ".md"));
    const std::string command = "cairn config support " + name;
    const Result result = shell(command);
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(
        page,
        HasSubstr("<!-- " + command + " -->\n" + result.out + "<!-- end -->\n"))
        << "put the output of `" << command << "` there";
  }
}

} // namespace
} // namespace cairn::testing::coming_from_test
