// `cairn checkpoint`, run as a user would: over checkpoints that a training of
// two ranks has saved, and over those of others.

#include "cli/zero_tensors.h"
#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::testing::checkpoint_command_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string golden = CAIRN_GOLDEN_DIR "/checkpoints";
const std::string models = CAIRN_GOLDEN_DIR "/models";

Result checkpoint(std::vector<std::string> arguments) {
  arguments.insert(
      arguments.begin(),
      {CAIRN_BINARY_DIR "/bin/cairn", "checkpoint"});
  return run(arguments);
}

json checkpoint_json(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Result result = checkpoint(std::move(arguments));
  return json::parse(result.out, nullptr, false);
}

/// The last three checkpoints of five steps.
class CheckpointCommand : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    trained_ = new TemporaryFolder();
    const Result result = run(
        {CAIRN_BINARY_DIR "/bin/cairn",
         "launch",
         "--num_gpus",
         "2",
         DRILL_TRAINER,
         (*trained_ / "run").string(),
         "5",
         (*trained_ / "weights.safetensors").string()});
    ASSERT_EQ(result.code, 0) << result.err;
  }
  static void TearDownTestSuite() { delete trained_; }

  CheckpointCommand() {
    fs::copy(*trained_ / "run", copy_ / "run", fs::copy_options::recursive);
  }

  std::string run_folder() const { return (copy_ / "run").string(); }
  std::string weights() const {
    return (*trained_ / "weights.safetensors").string();
  }
  /// A file of step 5 with its last byte changed.
  fs::path damage() const {
    for (const auto& entry :
         fs::directory_iterator(copy_ / "run" / "global_step5")) {
      if (entry.path().extension() == ".safetensors") {
        std::fstream file(
            entry.path(),
            std::ios::binary | std::ios::in | std::ios::out);
        file.seekg(-1, std::ios::end);
        const char last = static_cast<char>(file.get());
        file.seekp(-1, std::ios::end);
        file.put(static_cast<char>(last ^ 1));
        return entry.path();
      }
    }
    return {};
  }

  static inline TemporaryFolder* trained_ = nullptr;
  TemporaryFolder copy_;
};

TEST_F(CheckpointCommand, ListsARun) {
  Result result = checkpoint({"list", run_folder()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, ContainsRegex("global_step3 +3 .* complete\n"));
  EXPECT_THAT(
      result.out,
      ContainsRegex("global_step5 +5 .* 2  native +complete, latest\n"));
  EXPECT_THAT(result.out, HasSubstr("loading takes global_step5\n"));

  fs::remove(copy_ / "run" / "global_step5" / "manifest.json");
  result = checkpoint({"list", run_folder()});
  EXPECT_THAT(result.out, ContainsRegex("global_step5 .* DAMAGED, latest"));
  EXPECT_THAT(result.out, HasSubstr("loading takes global_step4\n"));

  const json listed = checkpoint_json({"list", run_folder()});
  EXPECT_EQ(listed["loads"], "global_step4");
  EXPECT_EQ(listed["checkpoints"].size(), 3);
}

TEST_F(CheckpointCommand, InspectsWhatAnEngineSaved) {
  const Result result = checkpoint({"inspect", run_folder()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("global_step5: native"));
  EXPECT_THAT(result.out, ContainsRegex("zero_stage +2"));
  EXPECT_THAT(result.out, ContainsRegex("step +5"));
  EXPECT_THAT(result.out, ContainsRegex("middle.weight +F32 +\\[200, 64\\]"));
  EXPECT_THAT(result.out, HasSubstr("exp_avg/middle.weight"));
  EXPECT_THAT(result.out, Not(HasSubstr("WARNING")));

  const json inspected = checkpoint_json(
      {"inspect",
       run_folder(),
       "--tag",
       "global_step3",
       "--tensors",
       "*.bias"});
  EXPECT_EQ(inspected["state"]["step"], 3);
  EXPECT_EQ(inspected["weights"].size(), 3);
  EXPECT_GT(inspected["weights"][0]["norm"], 0);
  const json unread = checkpoint_json({"inspect", run_folder(), "--no-norms"});
  EXPECT_FALSE(unread["weights"][0].contains("norm"));
}

TEST_F(CheckpointCommand, VerifiesARun) {
  Result result = checkpoint({"verify", run_folder()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      ContainsRegex("ok .*global_step5: .* held against their checksums"));

  const fs::path damaged = damage();
  result = checkpoint({"verify", run_folder()});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(
      result.out,
      AllOf(
          ContainsRegex("ok .*global_step4"),
          HasSubstr("FAULT  " + damaged.string()),
          HasSubstr("were altered")));
  EXPECT_THAT(result.err, HasSubstr("1 fault found"));
  EXPECT_EQ(
      checkpoint({"verify", run_folder(), "--tag", "global_step4"}).code,
      0);
  // The norm of a damaged tensor is not shown.
  result = checkpoint({"inspect", run_folder()});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr(damaged.string()));
}

TEST_F(CheckpointCommand, TellsDoubtsWithoutFailing) {
  // A manifest of version 1, which has no checksum, with another tag.
  const fs::path manifest = copy_ / "run" / "global_step5" / "manifest.json";
  std::string text = read_text(manifest);
  for (const auto& [from, to] :
       {std::pair("\"version\": 2", "\"version\": 1"),
        std::pair("\"tag\": \"global_step5\"", "\"tag\": \"global_step8\"")}) {
    ASSERT_NE(text.find(from), std::string::npos) << text;
    text.replace(text.find(from), std::string_view(from).size(), to);
  }
  std::ofstream(manifest) << text;
  const std::vector<std::string> command = {
      "verify",
      run_folder(),
      "--tag",
      "global_step5"};
  const Result result = checkpoint(command);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      ContainsRegex("doubt  .*the tag is global_step8, the step 5"));
  EXPECT_THAT(result.out, Not(HasSubstr("FAULT")));
  EXPECT_THAT(result.err, HasSubstr("no fault found, and 1 doubt"));
  const json told = checkpoint_json(command);
  EXPECT_EQ(told[0]["doubts"].size(), 1) << told;
  EXPECT_EQ(told[0]["faults"].size(), 0) << told;
}

TEST_F(CheckpointCommand, ComparesTwo) {
  Result result = checkpoint({"diff", run_folder(), run_folder()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("the same"));

  result = checkpoint(
      {"diff", run_folder(), run_folder(), "--other-tag", "global_step4"});
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_THAT(result.out, ContainsRegex("middle.weight +values +F32"));
  EXPECT_THAT(result.out, ContainsRegex("global_steps +5 +4\n"));

  // The run ended with these weights, which were bf16 by then.
  EXPECT_EQ(checkpoint({"diff", run_folder(), weights()}).code, 1);
  result = checkpoint(
      {"diff",
       run_folder(),
       weights(),
       "--ignore-types",
       "--tolerance",
       "0.01"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

TEST(CheckpointCommandOnOthers, InspectsAllFormats) {
  for (const auto& [path, format] :
       std::vector<std::pair<std::string, std::string>>{
           {golden + "/deepspeed_z3_bf16_w2", "deepspeed"},
           {golden + "/megatron_tp2", "megatron"},
           {models + "/gpt2", "huggingface"},
           {golden + "/nested.pt", "torch"},
           {golden + "/torch_optimizer.pt", "torch"},
           {golden + "/gpt2_logits.safetensors", "safetensors"}}) {
    const Result result = checkpoint({"inspect", path});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(": " + format + "\n"));
    EXPECT_THAT(result.out, HasSubstr("weights: "));
    EXPECT_EQ(checkpoint({"verify", path}).code, 0) << path;
  }
}

TEST(CheckpointCommandOnOthers, WarnsOfWhatIsNotFinite) {
  const TemporaryFolder folder;
  // A tensor of one number: nan.
  const std::string header =
      R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  file += header + std::string("\0\0\xc0\x7f", 4);
  const Result result =
      checkpoint({"inspect", folder.write("x.safetensors", file)});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("WARNING"));
  EXPECT_THAT(result.out, HasSubstr("1 nan"));
}

TEST(CheckpointCommandOnOthers, RefusesWhatItCannotRead) {
  const TemporaryFolder folder;
  const std::string noise = folder.write("noise.pt", "PK\x03\x04 no archive");
  for (const char* command : {"inspect", "verify"}) {
    EXPECT_EQ(checkpoint({command, noise}).code, 1) << command;
    EXPECT_EQ(checkpoint({command, "/no/such/place"}).code, 1) << command;
    EXPECT_EQ(checkpoint({command, folder.path()}).code, 1) << command;
    EXPECT_EQ(checkpoint({command}).code, 2) << command;
  }
  EXPECT_EQ(checkpoint({"list", "/no/such/place"}).code, 1);
  EXPECT_THAT(
      checkpoint({"list", folder.path()}).out,
      HasSubstr("no checkpoints"));
  EXPECT_EQ(checkpoint({"diff", noise, noise}).code, 2);
  EXPECT_EQ(checkpoint({"diff", noise}).code, 2);
  EXPECT_EQ(checkpoint({"inspekt", noise}).code, 2);
  EXPECT_THAT(checkpoint({"--help"}).out, HasSubstr("verify"));
  EXPECT_THAT(checkpoint({"diff", "--help"}).out, HasSubstr("--tolerance"));
}

TEST(CheckpointCommandOnOthers, VerifyingEndsWithControlC) {
  const TemporaryFolder folder;
  const fs::path zeros = write_zero_tensors(folder);
  Command command(
      {CAIRN_BINARY_DIR "/bin/cairn", "checkpoint", "verify", zeros.string()});
  const std::string maps = "/proc/" + std::to_string(command.pid()) + "/maps";
  const auto patience =
      std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (read_text(maps).find(zeros.string()) == std::string::npos &&
         std::chrono::steady_clock::now() < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  command.send(SIGINT);
  const Result result = command.finish();
  EXPECT_EQ(result.code, 130);
  EXPECT_THAT(result.err, HasSubstr("interrupted; the rest was not read"));
  EXPECT_THAT(result.out, IsEmpty());
}

} // namespace
} // namespace cairn::testing::checkpoint_command_test
