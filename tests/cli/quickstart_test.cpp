#include "support/browser.h"
#include "support/command.h"
#include "support/http_server.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace cairn::cli::quickstart_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Result;
using testing::run;
using testing::TemporaryFolder;

/// The command line, run in a shell that knows `cairn`, in the folder.
testing::Words in_folder(const std::string& folder, const std::string& line) {
  return {
      "bash",
      "-ec",
      "cd '" + folder + "'; export PATH='" CAIRN_BINARY_DIR "/bin':$PATH\n" +
          line};
}

/// The perplexity is that of a model that has learnt something: below the
/// number of entries of the vocabulary, 512.
void expect_evaluated(const std::string& folder) {
  const Result result = run(in_folder(
      folder,
      "tail -n 40 stories.jsonl > some.jsonl\n"
      "cairn evaluate --task PPL --valid-data some.jsonl --load checkpoints "
      "--tokenizer-model tokenizer/tokenizer.json --output results.json"));
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  std::ifstream file(folder + "/results.json");
  const auto results = nlohmann::json::parse(file);
  const double perplexity = results.at("results").at("ppl").get<double>();
  EXPECT_GT(perplexity, 1);
  EXPECT_LT(perplexity, 400) << results.dump(2);
}

/// One server is asked by curl, the client for a terminal and a browser.
void expect_served(const std::string& folder) {
  const std::string port = std::to_string(testing::unused_port());
  testing::Command server(in_folder(
      folder,
      "exec cairn serve --load checkpoints --tokenizer-model "
      "tokenizer/tokenizer.json --port " +
          port));
  server.wait_for(" until Ctrl-C");
  const Result asked = run(in_folder(
      folder,
      "curl -sS -X PUT localhost:" + port +
          "/api -H 'Content-Type: application/json' -d '{\"prompts\": "
          "[\"Once upon a time\"], \"tokens_to_generate\": 8}'"));
  EXPECT_EQ(asked.code, 0) << asked.err;
  EXPECT_THAT(asked.out, HasSubstr("\"text\":[\"Once upon a time"));
  const Result chat = run(in_folder(
      folder,
      "printf 'Once upon a time\\n5\\n' | cairn chat localhost:" + port));
  EXPECT_EQ(chat.code, 0) << chat.err;
  EXPECT_THAT(chat.out, HasSubstr("Megatron Response: \nOnce upon a time"));
  if (testing::Browser::find() || std::getenv("CI") != nullptr) {
    testing::Browser browser;
    std::string document;
    // The page's time may end before the stream does.
    for (int i = 0; i < 5 && document.find("6 tokens, ") == document.npos;
         ++i) {
      document = browser
                     .look(
                         "http://127.0.0.1:" + port +
                             "/#prompt=Once%20upon%20a%20time&tokens=6&go",
                         900,
                         5000)
                     .document;
    }
    EXPECT_THAT(
        document,
        AllOf(
            HasSubstr("Once upon a time</span><span class=\"token\""),
            HasSubstr("6 tokens, ")));
  }
  server.send(SIGTERM);
  EXPECT_EQ(server.finish().code, 0);
}

TEST(Quickstart, GoesFromNothingToStoriesAndAnswers) {
  const TemporaryFolder folder;
  const std::string output = (folder.path() / "first").string();
  const testing::Words words{
      CAIRN_BINARY_DIR "/bin/cairn",
      "quickstart",
      "--minutes",
      "0.2",
      "--output",
      output};
  const Result result = run(words);
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(
          HasSubstr("$ cairn data sample-corpus"),
          HasSubstr("$ cairn launch --num_gpus 2 pretrain gpt"),
          HasSubstr("kill -9 of all ranks after iteration"),
          HasSubstr("loss on stories it has not seen: "),
          HasSubstr("5. Stories that it tells\n   $ cairn generate --load "),
          HasSubstr("\n\n   “")));
  EXPECT_TRUE(std::filesystem::exists(output + "/checkpoints/latest"));
  EXPECT_THAT(
      result.out,
      HasSubstr("the run as a page, for a browser: " + output));
  EXPECT_TRUE(std::filesystem::exists(output + "/metrics.html"));

  expect_evaluated(output);
  expect_served(output);

  const Result again = run(words);
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("the folder is there already"));
}

TEST(Quickstart, LeavesNothingRunningAfterCtrlC) {
  const TemporaryFolder folder;
  testing::Command command(
      {CAIRN_BINARY_DIR "/bin/cairn",
       "quickstart",
       "--output",
       (folder.path() / "first").string()});
  command.wait_for("trying out how fast this machine is");
  ::kill(command.pid(), SIGINT);
  EXPECT_EQ(command.finish().code, 128 + SIGINT);
  command.expect_nothing_left();
}

} // namespace
} // namespace cairn::cli::quickstart_test
