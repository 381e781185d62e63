#pragma once

#include "support/command.h"
#include "support/temporary_folder.h"

#include <cairn/base/file.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

// Helpers for tests of `cairn pretrain`.

namespace cairn::cli::pretrain_test {

using testing::Result;
using testing::run;
using testing::TemporaryFolder;
using testing::Words;

inline Words cairn(Words words) {
  words.insert(words.begin(), CAIRN_BINARY_DIR "/bin/cairn");
  return words;
}

inline Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

inline void succeed(const Words& words) {
  const Result result = run(words);
  ASSERT_EQ(result.code, 0) << result.out << result.err;
}

/// Stories, a tokenizer and tokens of them, made once.
class Pretrain : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    const std::string stories = path("stories.jsonl");
    succeed(cairn(
        {"data",
         "sample-corpus",
         "--output",
         stories,
         "--size",
         "300KB",
         "--workers",
         "1"}));
    succeed(cairn(
        {"train-tokenizer", stories, path("bpe"), "--vocab-size", "300"}));
    succeed(cairn(
        {"preprocess",
         "--input",
         stories,
         "--output-prefix",
         path("gpt"),
         "--tokenizer-model",
         path("bpe/tokenizer.json"),
         "--append-eod"}));
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string path(const std::string& name) {
    return (folder_->path() / name).string();
  }

  static std::string written(const std::string& name, const std::string& text) {
    folder_->write(name, text);
    return path(name);
  }

  static Words gpt(int iterations) {
    return {
        "pretrain",
        "gpt",
        "--num-layers",
        "2",
        "--hidden-size",
        "32",
        "--num-attention-heads",
        "2",
        "--seq-length",
        "32",
        "--micro-batch-size",
        "2",
        "--global-batch-size",
        "8",
        "--train-iters",
        std::to_string(iterations),
        "--lr",
        "1e-3",
        "--lr-decay-iters",
        "100",
        "--data-path",
        path("gpt_text_document"),
        "--tokenizer-model",
        path("bpe/tokenizer.json"),
        "--split",
        "90,5,5",
        "--eval-iters",
        "1",
        "--eval-interval",
        "4",
        "--log-interval",
        "2"};
  }
  static Words launched(const Words& words, int ranks = 2) {
    return cairn(Words{"launch", "--num_gpus", std::to_string(ranks)} + words);
  }
  /// Words without dropout.
  static Words without_dropout(const Words& words) {
    return words + Words{"--attention-dropout", "0", "--hidden-dropout", "0"};
  }
  static void expect_near(
      const std::vector<double>& some,
      const std::vector<double>& others) {
    ASSERT_EQ(some.size(), others.size());
    for (std::size_t i = 0; i < some.size(); ++i) {
      EXPECT_NEAR(some[i], others[i], 2e-5) << i;
    }
  }
  static Words saving(const std::string& name) {
    return {"--save", path(name), "--load", path(name)};
  }
  /// The number behind `name` in each line that has it.
  static std::vector<double> values(const std::string& file, const char* name) {
    std::vector<double> result;
    std::istringstream lines(read_file(path(file), 1 << 20));
    for (std::string line; std::getline(lines, line);) {
      const auto object = nlohmann::json::parse(line);
      if (object.contains(name)) {
        result.push_back(object[name]);
      }
    }
    return result;
  }

 private:
  static inline std::unique_ptr<TemporaryFolder> folder_;
};

} // namespace cairn::cli::pretrain_test
