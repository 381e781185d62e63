#pragma once

#include "support/command.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace cairn::cli::tune_test {

/// A small training of `cairn pretrain`.
inline constexpr const char* net =
    " gpt --num-layers 2 --hidden-size 32 --num-attention-heads 2 "
    "--seq-length 32 --vocab-size 250 --tokenizer-type NullTokenizer "
    "--mock-data --lr 1e-3 ";

/// A folder in which commands run as in a user's.
class Tune : public ::testing::Test {
 protected:
  /// A command line in the folder, as a shell runs it.
  testing::Words line(const std::string& text) const {
    return {
        "bash",
        "-c",
        "cd '" + folder_.path().string() +
            "'; exec '" CAIRN_BINARY_DIR "/bin/cairn' " + text};
  }
  testing::Result run(const std::string& text) const {
    return testing::run(line(text));
  }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder_.path())) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
  nlohmann::json json(const std::string& file) const {
    return nlohmann::json::parse(testing::read_text(folder_.path() / file));
  }

  testing::TemporaryFolder folder_;
};

inline std::vector<std::string> texts_of(
    const nlohmann::json& results,
    const char* key) {
  std::vector<std::string> all;
  for (const nlohmann::json& trial : results["trials"]) {
    all.push_back(trial[key]);
  }
  return all;
}

inline std::vector<std::string> statuses(const nlohmann::json& results) {
  return texts_of(results, "status");
}

} // namespace cairn::cli::tune_test
