// The command lines of the peers' own scripts and the configurations of their
// examples, as they are. What Cairn refuses of them stands in the docs.

#include "config/internal/actors.h"
#include "config/internal/check_kind.h"
#include "config/internal/flag.h"
#include "config/internal/flag_file.h"

#include <cairn/base/error.h>
#include <cairn/config/config.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::config::command_lines_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

const fs::path folder = fs::path(CAIRN_GOLDEN_DIR) / "command_lines";

struct Script {
  std::string name;
  model::ModelKind kind = model::ModelKind::gpt;
  std::int64_t ranks = 1;
  std::string of; ///< as the docs name it
};

using enum model::ModelKind;
const std::vector<Script> scripts{
    {"megatron-gpt3-175b", gpt, 1024, "Megatron-LM, GPT-3 175B"},
    {"megatron-bert-340m", bert, 128, "Megatron-LM, BERT 340M"},
    {"megatron-t5-220m", t5, 8, "Megatron-LM, T5 220M"},
    {"megatron-llama3-8b", gpt, 8, "Megatron-LM, Llama 3 8B"},
    {"megatron-llama3-8b-fsdp", gpt, 8, "Megatron-LM, Llama 3 8B with FSDP"},
    {"megatron-mixtral-8x7b", gpt, 32, "Megatron-LM, Mixtral 8x7B"},
    {"mds-gpt", gpt, 1, "Megatron-DeepSpeed, GPT"},
    {"mds-gpt_distributed", gpt, 8, "Megatron-DeepSpeed, GPT"},
    {"mds-gpt_distributed_with_mp", gpt, 8, "Megatron-DeepSpeed, GPT"},
    {"mds-gpt3_175B", gpt, 1024, "Megatron-DeepSpeed, GPT-3 175B"},
    {"mds-bert", bert, 1, "Megatron-DeepSpeed, BERT"},
    {"mds-bert_distributed", bert, 8, "Megatron-DeepSpeed, BERT"},
    {"mds-bert_distributed_with_mp", bert, 8, "Megatron-DeepSpeed, BERT"},
    {"mds-t5", t5, 1, "Megatron-DeepSpeed, T5"},
    {"mds-t5_distributed", t5, 8, "Megatron-DeepSpeed, T5"},
    {"mds-t5_distributed_with_mp", t5, 8, "Megatron-DeepSpeed, T5"},
    {"t9k-gpt-125m", gpt, 1, "t9k, GPT 125M"},
    {"t9k-gpt-125m-2xdp", gpt, 2, "t9k, GPT 125M"},
    {"t9k-gpt-125m-4xdp", gpt, 4, "t9k, GPT 125M"},
    {"t9k-gpt-1-3b-4xdp", gpt, 4, "t9k, GPT 1.3B"},
    {"t9k-gpt-1-3b-8xdp", gpt, 8, "t9k, GPT 1.3B"},
    {"t9k-gpt-1-3b-4xdp-4xpp", gpt, 16, "t9k, GPT 1.3B"},
    {"t9k-gpt-13b-4xdp-4xpp", gpt, 16, "t9k, GPT 13B"},
    {"t9k-gpt-13b-4xdp-4xpp-4xtp", gpt, 64, "t9k, GPT 13B"},
    {"t9k-gpt-13b-4xdp-8xpp", gpt, 32, "t9k, GPT 13B"}};

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The message of the ConfigError that `action` throws; empty without one.
template <typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

bool is_flag(const std::string& word) {
  return word.starts_with("--");
}

/// The words of a script's file; JSON files are found in its folder.
Words words_of(const std::string& name) {
  Words words = with_flag_files({"@" + (folder / (name + ".flags")).string()});
  const std::string json = "--deepspeed_config=";
  for (std::string& word : words) {
    if (word.starts_with(json)) {
      word.insert(json.size(), folder.string() + "/");
    }
  }
  return words;
}

/// Takes the flags that Cairn refuses by name out of a command line.
Words taken_out(Words& words) {
  Words refused;
  for (auto word = words.begin(); word != words.end();) {
    const std::string name = word->substr(0, word->find('='));
    if (!is_flag(*word) || find_refused_flag(name) == nullptr) {
      ++word;
      continue;
    }
    refused.push_back(name);
    const auto next = std::find_if(word + 1, words.end(), is_flag);
    word = words.erase(word, next);
  }
  return refused;
}

TEST(CommandLines, OfTheTableAreAllThatAreThere) {
  std::set<std::string> named;
  for (const Script& script : scripts) {
    EXPECT_TRUE(named.insert(script.name + ".flags").second) << script.name;
  }
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().extension() == ".flags") {
      EXPECT_TRUE(named.contains(file.path().filename())) << file.path();
    }
  }
}

/// The section of a page between `<!-- NAME -->` and `<!-- end -->`.
void expect_in_docs(
    const std::string& page,
    const std::string& name,
    const std::string& text) {
  EXPECT_THAT(
      read_text(fs::path(CAIRN_SOURCE_DIR) / "docs" / page),
      HasSubstr("<!-- " + name + " -->\n" + text + "<!-- end -->\n"))
      << "put this there:\n"
      << text;
}

TEST(CommandLines, AreTakenButForTheFlagsInTheDocs) {
  std::vector<std::pair<std::string, std::set<std::string>>> rows;
  for (const Script& script : scripts) {
    Words words = words_of(script.name);
    ASSERT_GT(words.size(), 20U) << script.name;
    for (const std::string& flag : taken_out(words)) {
      auto row = std::ranges::find(
          rows,
          script.of,
          &std::pair<std::string, std::set<std::string>>::first);
      if (row == rows.end()) {
        row = rows.insert(rows.end(), {script.of, {}});
      }
      row->second.insert(flag);
    }
    const std::string error = error_of([&] {
      const Config config =
          Config::load({.flags = words, .world_size = script.ranks});
      check_kind(script.kind, config);
      refuse_unused_flags(config, Actor::pretrain);
    });
    EXPECT_EQ(error, "") << script.name;
  }
  std::string table = rows.empty()
      ? "Nothing: every flag of them is taken.\n"
      : "| script | flag | refused because |\n|---|---|---|\n";
  for (const auto& [of, flags] : rows) {
    for (const std::string& flag : flags) {
      table += fmt::format(
          "| {} | `{}` | {} |\n",
          of,
          flag,
          find_refused_flag(flag)->reason);
    }
  }
  expect_in_docs("coming-from-megatron.md", "refused of scripts", table);
}

TEST(CommandLines, TakenFlagsSayWhyTheyHaveNoEffect) {
  Words words = words_of("megatron-mixtral-8x7b");
  taken_out(words);
  const Config config = Config::load({.flags = words, .world_size = 32});
  const auto& moe = config.flags.moe;
  EXPECT_EQ(moe.topk, 2);
  EXPECT_EQ(moe.expert_interval, 1) << "Megatron-LM's default";
  EXPECT_FALSE(moe.token_dropping) << "Megatron-LM's default";
  const std::string said = fmt::format("{}", fmt::join(config.warnings, "\n"));
  for (const char* flag :
       {"--use-mcore-models has no effect: ",
        "--no-masked-softmax-fusion has no effect: ",
        "--moe-grouped-gemm has no effect: ",
        "--wandb-project Mixtral has no effect: ",
        "--moe-router-topk is Megatron-LM's"}) {
    EXPECT_THAT(said, HasSubstr(flag));
  }
}

/// Every flag of the peers is known: it acts, is taken with a line, or is
/// refused with a reason, or says something in other words, and only one of
/// these.
TEST(CommandLines, EveryFlagOfThePeersIsKnown) {
  std::istringstream lines(read_text(folder / "flags.txt"));
  int count = 0;
  for (std::string name, values; lines >> name >> values; ++count) {
    const std::string flag = "--" + name;
    const TakenFlags* taken = find_taken_flag(flag);
    EXPECT_EQ(
        int{find_flag(flag) != nullptr} + int{taken != nullptr} +
            int{find_refused_flag(flag) != nullptr} +
            int{!find_other_words(flag).empty()},
        1)
        << flag;
    if (taken != nullptr) {
      EXPECT_EQ(
          values,
          taken->arity.most == 0       ? "0"
              : taken->arity.most == 1 ? "1"
                                       : "+")
          << flag;
    }
  }
  EXPECT_GT(count, 950);
}

/// Removes the key, and sections that are empty then.
void erase_key(nlohmann::json& root, std::string_view path) {
  const std::size_t dot = path.find('.');
  const std::string name(path.substr(0, dot));
  if (dot == path.npos) {
    root.erase(name);
    return;
  }
  erase_key(root.at(name), path.substr(dot + 1));
  if (root.at(name).empty()) {
    root.erase(name);
  }
}

/// The key that an error names in parentheses: "config:1:7 (a.b): …".
std::string key_in(const std::string& error) {
  const std::size_t open = error.find('(');
  const std::size_t close = error.find(')');
  return open == error.npos || close == error.npos
      ? ""
      : error.substr(open + 1, close - open - 1);
}

/// The words behind the key.
std::string reason_in(const std::string& error) {
  std::string reason = error.substr(error.find("): ") + 3);
  const std::string mark = "not supported by Cairn: ";
  if (const std::size_t at = reason.find(mark); at != reason.npos) {
    reason.erase(0, at + mark.size());
  }
  return reason == "unknown key" ? "it is no key of DeepSpeed's" : reason;
}

TEST(CommandLines, ConfigurationsOfDeepSpeedsExamplesAreTakenButForKeys) {
  std::map<std::string, std::pair<std::string, int>> refused;
  std::istringstream lines(read_text(folder / "deepspeed.jsonl"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const nlohmann::json row = nlohmann::json::parse(line);
    nlohmann::json json = row.at(2);
    std::string error;
    for (int tries = 0; tries < 20; ++tries) {
      Words flags;
      const auto batch = json.find("train_micro_batch_size_per_gpu");
      const bool open = batch == json.end() || *batch == "auto";
      if (open &&
          json.value("train_batch_size", nlohmann::json("auto")) == "auto") {
        flags = {"--micro-batch-size", "1"};
      }
      if (json.dump().find("\"lr\":\"auto\"") != std::string::npos) {
        flags.insert(flags.end(), {"--lr", "1e-4"});
      }
      error = error_of([&] {
        Config::load(
            {.json = json.dump(),
             .flags = flags,
             .world_size = row.at(1).get<std::int64_t>()});
      });
      const std::string key = key_in(error);
      if (key.empty()) {
        break;
      }
      auto& [why, times] = refused[key];
      why = reason_in(error);
      ++times;
      // The other settings of an optimizer mean nothing without its name.
      erase_key(json, key == "optimizer.type" ? "optimizer" : key);
    }
    EXPECT_EQ(error, "") << row.at(0) << " on " << row.at(1) << " ranks";
  }
  EXPECT_GT(count, 40);
  std::string table = "| key | examples | refused because |\n|---|---|---|\n";
  for (const auto& [key, why] : refused) {
    table += fmt::format("| `{}` | {} | {} |\n", key, why.second, why.first);
  }
  expect_in_docs("coming-from-deepspeed.md", "refused of examples", table);
}

} // namespace
} // namespace cairn::config::command_lines_test
