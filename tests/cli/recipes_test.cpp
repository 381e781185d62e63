// The recipes as a user meets them: their launch lines, the results of `cairn
// config check`, their Slurm scripts and manifests, and the smallest one end to
// end.

#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace cairn::testing::recipes_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const fs::path source = fs::path(CAIRN_SOURCE_DIR) / "recipes";

Words recipe_names() {
  Words names;
  for (const auto& entry : fs::directory_iterator(source)) {
    if (fs::exists(entry.path() / "flags")) {
      names.push_back(entry.path().filename());
    }
  }
  std::ranges::sort(names);
  return names;
}

Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

/// A folder with a copy of the recipes in it.
class RecipeFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::copy(source, folder_ / "recipes", fs::copy_options::recursive);
  }
  Result shell(const std::string& line, const std::string& path = "") const {
    return run(
        {"bash",
         "-ec",
         "cd '" + folder_.path().string() + "'; export PATH='" +
             (path.empty() ? CAIRN_BINARY_DIR "/bin" : path) + "':$PATH\n" +
             line});
  }
  void prepare(const std::string& line) const {
    const Result result = shell(line);
    ASSERT_EQ(result.code, 0) << line << "\n" << result.out << result.err;
  }

  TemporaryFolder folder_;
};

/// The words with which launch.sh calls `cairn`.
struct Launch {
  Words words;
  int nodes = 1;
  int gpus = 0;
  std::string kind;
};

Launch launch_of(const Words& words) {
  Launch launch{.words = words};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "--num_nodes") {
      launch.nodes = std::stoi(words[i + 1]);
    } else if (words[i] == "--num_gpus") {
      launch.gpus = std::stoi(words[i + 1]);
    } else if (words[i] == "pretrain") {
      launch.kind = words[i + 1];
    }
  }
  return launch;
}

std::string value_in(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? match[1].str()
                                                             : "";
}

TEST_F(RecipeFiles, AreCheckedOnTheirRanksAndListedWithWhatThatSays) {
  fs::create_directory(folder_ / "fake");
  folder_.write_script("fake/cairn", "#!/bin/sh\nprintf '%s\\n' \"$@\"\n");
  const std::string readme = read_text(source / "README.md");
  for (const std::string& name : recipe_names()) {
    SCOPED_TRACE(name);
    const Result called = shell(
        "recipes/" + name + "/launch.sh --more",
        (folder_ / "fake").string());
    const Launch launch = launch_of(lines_of(called.out));
    ASSERT_GE(launch.words.size(), 6U);
    EXPECT_EQ(launch.words.front(), "launch");
    EXPECT_EQ(launch.words.back(), "--more");
    EXPECT_THAT(
        launch.words,
        ::testing::Contains("@recipes/" + name + "/flags"));

    const std::string row =
        value_in(readme, "(\\| \\[" + name + "\\][^\\n]*)\\n");
    ASSERT_NE(row, "") << "no row in recipes/README.md";
    const bool wikipedia = row.find("| 003 |") != std::string::npos;
    const Result checked = shell(
        "cairn config check " + launch.kind + " @recipes/" + name +
        "/flags --world-size " + std::to_string(launch.nodes * launch.gpus) +
        (wikipedia ? " --vocab-size 52000" : ""));
    ASSERT_EQ(checked.code, 0) << checked.err;
    // The table and the check give the same values.
    const std::string& out = checked.out;
    const std::string mesh = value_in(out, "\nmesh +\\d+ ranks? = ([^\n]+)\n");
    EXPECT_THAT(
        row,
        AllOf(
            HasSubstr(
                "| " + value_in(out, "\nparameters +\\d+ \\(([^)]+)\\)") +
                " |"),
            HasSubstr(
                "| " + value_in(mesh, "^(\\d+) data") + " x " +
                value_in(mesh, " (\\d+) tensor") + " x " +
                value_in(mesh, " (\\d+) pipeline") + " |"),
            HasSubstr(
                "| " + value_in(out, "\nbatch +(\\d+) =") + " / " +
                value_in(out, "= (\\d+) per rank") + " |"),
            HasSubstr("| " + value_in(out, "ZeRO stage (\\d)") + " |"),
            HasSubstr("| " + value_in(out, "model states ([^\n]+)\n") + " |")))
        << out;
  }
}

TEST_F(RecipeFiles, TheirJobsAreWhatLaunchWrites) {
  std::map<std::string, std::string> jobs;
  for (const std::string& name : recipe_names()) {
    for (const char* file : {"job.sh", "job.yaml"}) {
      const fs::path path = fs::path("recipes") / name / file;
      if (fs::remove(folder_.path() / path)) {
        jobs[path] = read_text(fs::path(CAIRN_SOURCE_DIR) / path);
      }
    }
  }
  EXPECT_THAT(jobs, SizeIs(7));
  prepare("recipes/write_jobs.sh");
  for (const auto& [path, text] : jobs) {
    EXPECT_EQ(read_text(folder_.path() / path), text)
        << path << ": run recipes/write_jobs.sh";
    // The ranks are those of launch.sh.
    const std::string launch =
        read_text((folder_.path() / path).parent_path() / "launch.sh");
    const std::string nodes = value_in(launch, "NNODES:-(\\d+)");
    EXPECT_EQ(
        value_in(text, "(?:--nnodes=|replicas: )(\\d+)"),
        nodes.empty() ? "1" : nodes)
        << path;
    EXPECT_EQ(
        value_in(text, "(?:--nproc_per_node=|slotsPerWorker: )(\\d+)"),
        value_in(launch, "GPUS_PER_NODE:-(\\d+)"))
        << path;
    if (path.ends_with(".sh")) {
      prepare("bash -n " + path);
    }
  }
}

// Runs on two ranks, with a model and data small enough for a test; everything
// else is the recipe's: fp16, loss scale, tokens, schedule, TensorBoard,
// checkpoint.
TEST_F(RecipeFiles, TheSmallestRunsEndToEnd) {
  prepare(
      "cairn data sample-corpus --output enwiki.jsonl --size 300KB --workers "
      "1\n"
      "cairn train-tokenizer enwiki.jsonl wiki-en-tokenizer --vocab-size 300\n"
      "mkdir wiki-en\n"
      "cairn preprocess --input enwiki.jsonl --output-prefix wiki-en/gpt "
      "--tokenizer-type GPT2BPETokenizer "
      "--vocab-file wiki-en-tokenizer/vocab.json "
      "--merge-file wiki-en-tokenizer/merges.txt --append-eod");
  const std::string small =
      "GPUS_PER_NODE=2 recipes/gpt-125m/launch.sh --num-layers 2 --hidden-size "
      "64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 "
      "--micro-batch-size 2 --global-batch-size 8 --train-tokens 1024 "
      "--lr-decay-tokens 1024 --lr-warmup-tokens 512 --log-interval 1 "
      "--eval-iters 1 --split 90,5,5";
  const Result result = shell(small);
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  const std::string both = result.out + result.err;
  EXPECT_THAT(both, ContainsRegex("iteration +2/ +2"));
  EXPECT_THAT(both, HasSubstr("the training is done, after iteration 2"));
  EXPECT_TRUE(fs::is_directory(folder_ / "output/gpt-125m/tensorboard"));
  // Another call of this line finds the end of the run in its checkpoint.
  const Result again = shell(small);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out + again.err, HasSubstr("nothing to do"));
}

} // namespace
} // namespace cairn::testing::recipes_test
