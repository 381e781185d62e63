#include <cairn/data/indexed_dataset.h>

#include "data/golden_indexed.h"
#include "support/command.h"
#include "support/names_in.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace cairn::data::preprocess_command_test {
namespace {

using cairn::testing::names_in;
using cairn::testing::run;
using cairn::testing::TemporaryFolder;
using cairn::testing::Words;
using fixtures::golden_indexed;
using fixtures::slurp;
using ::testing::HasSubstr;

const std::string cairn_program = CAIRN_BINARY_DIR "/bin/cairn";
const std::string tokenizers = CAIRN_GOLDEN_DIR "/tokenizers/";

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const Words gpt2{
    "--tokenizer-type",
    "GPT2BPETokenizer",
    "--vocab-file",
    tokenizers + "gpt2/vocab.json",
    "--merge-file",
    tokenizers + "gpt2/merges.txt"};

/// The golden Megatron command as ours: the same flags, other folders.
Words ours(const nlohmann::json& golden, const TemporaryFolder& folder) {
  Words words{cairn_program, "preprocess"};
  std::istringstream command(golden["command"].get<std::string>());
  std::string word;
  command >> word; // tools/preprocess_data.py
  while (command >> word) {
    const bool file = word.ends_with(".jsonl");
    const bool vocabulary =
        word.starts_with("gpt2/") || word.starts_with("bert/");
    words.push_back(
        file ? golden_indexed(word == "mdocs.jsonl" ? "docs.jsonl" : word)
                   .string()
            : vocabulary                        ? tokenizers + word
            : words.back() == "--output-prefix" ? (folder / word).string()
                                                : word);
  }
  return words;
}

TEST(PreprocessCommand, WritesWhatThePeersWrite) {
  const auto runs = nlohmann::json::parse(slurp(golden_indexed("runs.json")));
  int compared = 0;
  for (const auto& golden : runs) {
    const auto name = golden["name"].get<std::string>();
    const bool deepspeed = golden["peer"] == "Megatron-DeepSpeed";
    if (!golden["ok"].get<bool>() || name.starts_with("old_")) {
      continue;
    }
    const TemporaryFolder folder;
    Words words = ours(golden, folder);
    if (deepspeed) {
      words.push_back("--no-special-tokens-in-text");
    }
    if (name == "mds_bert_split_mmap") {
      words = with(
          words,
          {"--tokenizer-hf-no-include-special-tokens",
           "--max-word-length",
           "200"});
    }
    const auto result = run(words);
    ASSERT_EQ(result.code, 0) << name << result.err;
    for (const std::string key : golden["keys"]) {
      const auto file =
          name + "_" + key + "_" + golden["level"].get<std::string>();
      if (deepspeed && name.find("bert") == std::string::npos &&
          name.find("noeod") == std::string::npos) {
        // Megatron's own index is broken: ours describes the same tokens
        // rightly.
        EXPECT_EQ(
            std::filesystem::file_size(folder / (file + ".bin")),
            std::filesystem::file_size(golden_indexed(file + ".bin")));
        EXPECT_NO_THROW(IndexedDataset(folder / file));
        continue;
      }
      EXPECT_EQ(
          slurp(folder / (file + ".bin")),
          slurp(golden_indexed(file + ".bin")))
          << file;
      EXPECT_EQ(
          slurp(folder / (file + ".idx")),
          slurp(golden_indexed(file + ".idx")))
          << file;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 10);
}

TEST(PreprocessCommand, TakesPackedInputAndStandardInput) {
  const TemporaryFolder folder;
  const auto input = golden_indexed("docs.jsonl").string();
  const std::string flags = " --tokenizer-type GPT2BPETokenizer --vocab-file " +
      tokenizers + "gpt2/vocab.json --merge-file " + tokenizers +
      "gpt2/merges.txt --append-eod --output-prefix ";
  const auto prefix = [&](const char* name) {
    return (folder / name).string();
  };
  const auto result = run(
      {"bash",
       "-ec",
       "zstd -qc " + input + " | " + cairn_program + " preprocess --input -" +
           flags + prefix("a") + "\nxz -c " + input + " > " + prefix("x") +
           "\n" + cairn_program + " preprocess --input " + prefix("x") + flags +
           prefix("b")});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* name : {"a", "b"}) {
    EXPECT_EQ(
        slurp(folder / (name + std::string("_text_document.bin"))),
        slurp(golden_indexed("mlm_gpt2_eod_text_document.bin")));
  }
}

TEST(PreprocessCommand, ReportsWhatItDid) {
  const TemporaryFolder folder;
  folder.write("in", "{\"text\": \"one two\"}\nbroken\n");
  const auto result = run(with(
      {cairn_program,
       "preprocess",
       "--input",
       (folder / "in").string(),
       "--output_prefix", // underscores are taken too
       (folder / "o").string(),
       "--on-error",
       "skip",
       "--log-interval",
       "1"},
      gpt2));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("documents    1 (1 lines skipped)"));
  EXPECT_THAT(result.out, HasSubstr("tokens       2 (uint16)"));
  EXPECT_THAT(result.out, HasSubstr("peak memory"));
  EXPECT_THAT(result.out, HasSubstr("o_text_document.bin and .idx"));
  EXPECT_THAT(result.err, HasSubstr("/in:2: not a JSON object"));
  EXPECT_THAT(result.err, HasSubstr("processed 1 documents"));
}

TEST(PreprocessCommand, ALongListTakesLittleMoreThanItsLine) {
  const TemporaryFolder folder;
  std::string line = "{\"text\": [\"a\"";
  while (line.size() < (24U << 20)) {
    line += ",\"\"";
  }
  const auto result = run(with(
      {cairn_program,
       "preprocess",
       "--input",
       folder.write("in", line + "]}\n"),
       "--output-prefix",
       (folder / "o").string()},
      gpt2));
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string label = "peak memory";
  const auto at = result.out.find(label);
  ASSERT_NE(at, std::string::npos) << result.out;
  EXPECT_LT(std::stod(result.out.substr(at + label.size())), 200) << result.out;
}

TEST(PreprocessCommand, MistakesHaveTheirExitCodes) {
  const TemporaryFolder folder;
  const auto input = folder.write("in", "{\"title\": \"one\"}\n");
  const auto prefix = (folder / "o").string();
  const auto expect = [&](const Words& words, int code, const char* text) {
    const auto result = run(with({cairn_program, "preprocess"}, words));
    EXPECT_EQ(result.code, code);
    EXPECT_THAT(result.err, HasSubstr(text));
  };
  const Words plain{"--input", input, "--output-prefix", prefix};
  expect({"--input", input}, 2, "--output-prefix is required");
  expect(with(plain, {"--apend-eod"}), 2, "did you mean --append-eod?");
  expect(with(plain, {"--keep-newlines"}), 2, "add --split-sentences");
  expect(with(plain, {"--lang", "english"}), 2, "add --split-sentences");
  expect(
      with(plain, {"--split-sentences", "--lang", "french"}),
      2,
      "--sentence-model");
  expect(
      with({"--input", input, "--output-prefix", "no/such/o"}, gpt2),
      1,
      "no/such: the folder of --output-prefix is missing");
  expect(with(plain, gpt2), 1, "or leave such lines out with --on-error skip");
  expect(with(plain, gpt2), 1, "/in:1: has no key \"text\" (its keys: title)");
  expect(
      with({"--input", "none", "--output-prefix", prefix}, gpt2),
      1,
      "none: cannot");
  EXPECT_FALSE(std::filesystem::exists(prefix + "_text_document.bin"));
}

TEST(PreprocessCommand, KilledItLeavesNoFinalFile) {
  const TemporaryFolder folder;
  const auto out = folder / "out";
  std::filesystem::create_directory(out);
  const auto pipe = (folder / "pipe").string();
  ASSERT_EQ(run({"mkfifo", pipe}).code, 0);
  const auto words = [&](const std::string& input) {
    return with(
        {cairn_program,
         "preprocess",
         "--input",
         input,
         "--output-prefix",
         (out / "o").string(),
         "--log-interval",
         "1"},
        gpt2);
  };
  {
    // The command has written some and waits for more, which never comes.
    cairn::testing::Command feed(
        {"bash",
         "-c",
         "exec 3>" + pipe +
             "; for i in {1..9}; do cat "
             "/dev/zero | head -c 400000 | tr '\\0' x | sed 's/.*/{\"text\": "
             "\"&\"}/' >&3; echo >&3; done; sleep 60"});
    cairn::testing::Command killed(words(pipe));
    killed.wait_for_error("processed");
    killed.send(SIGKILL);
    EXPECT_EQ(killed.finish().code, 128 + SIGKILL);
  }
  EXPECT_THAT(
      names_in(out),
      ::testing::UnorderedElementsAre(
          "o_text_document.bin.partial",
          "o_text_document.idx.partial"));
  const auto input = folder.write("in", "{\"text\": \"one two\"}\n");
  ASSERT_EQ(run(words(input)).code, 0);
  EXPECT_THAT(
      names_in(out),
      ::testing::UnorderedElementsAre(
          "o_text_document.bin",
          "o_text_document.idx"));
  EXPECT_EQ(IndexedDataset(out / "o_text_document").token_count(), 2U);
}

TEST(PreprocessCommand, AFullDiskLeavesNothing) {
  const TemporaryFolder folder;
  const auto out = folder / "out";
  std::filesystem::create_directory(out);
  std::string lines;
  for (int i = 0; i < 20'000; ++i) {
    lines += "{\"text\": \"a b c d e f g h i j k l m n o p q r s t\"}\n";
  }
  const auto input = folder.write("in", lines);
  std::string command = "ulimit -f 100; exec";
  for (const auto& word : with(
           {cairn_program,
            "preprocess",
            "--input",
            input,
            "--output-prefix",
            (out / "o").string()},
           gpt2)) {
    command += " " + word;
  }
  for (const char* more : {"", " --partitions 3"}) {
    const auto result = run({"bash", "-c", command + more});
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, HasSubstr("cannot write: File too large"));
    EXPECT_TRUE(std::filesystem::is_empty(out));
  }
  // The limit is met while a line is encoded: not an error of the line.
  std::string huge = "{\"text\": \"";
  for (int i = 0; i < 13'000'000; ++i) {
    huge += "a ";
  }
  folder.write("in", huge + "\"}\n");
  for (const char* more : {"", " --on-error skip"}) {
    const auto result = run({"bash", "-c", command + more});
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(
        result.err,
        HasSubstr("o_text_document.bin.partial: cannot write: File too large"));
    EXPECT_TRUE(std::filesystem::is_empty(out));
  }
}

} // namespace
} // namespace cairn::data::preprocess_command_test
