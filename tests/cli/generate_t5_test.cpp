// `cairn generate` and `cairn serve` with a T5.

#include "cli/pretrain_fixture.h"
#include "support/http_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace cairn::cli::generate_t5_test {
namespace {

using nlohmann::json;
using pretrain_test::cairn;
using pretrain_test::operator+;
using testing::body_of;
using testing::Command;
using ::testing::HasSubstr;
using testing::post;
using testing::Result;
using testing::run;
using testing::TemporaryFolder;
using testing::Words;

using Ids = std::vector<std::int64_t>;

json golden(const char* model) {
  return json::parse(read_file(CAIRN_GOLDEN_DIR "/generation/t5.json", 1 << 20))
      .at(model);
}

std::string joined(const Ids& ids, const char* between) {
  std::string text;
  for (const std::int64_t id : ids) {
    text += (text.empty() ? "" : between) + std::to_string(id);
  }
  return text;
}

Words words(const std::string& model, const Words& more) {
  return cairn(
      Words{"generate", "--load", CAIRN_GOLDEN_DIR "/models/" + model} + more);
}

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    result.push_back(json::parse(line));
  }
  return result;
}

TEST(GenerateT5, TakesIdsAndGivesThoseOfTransformers) {
  for (const char* model : {"t5_relu", "t5_gated_gelu"}) {
    const json row = golden(model).at("greedy").at(3);
    const Ids source = row.at("source");
    const Result greedy = run(words(
        model,
        {"--prompt-ids",
         joined(source, ","),
         "--greedy",
         "--out-seq-length",
         "24"}));
    ASSERT_EQ(greedy.code, 0) << greedy.err;
    // The checkpoint's end token ends the text.
    Ids expected = row.at("ids");
    expected.erase(
        std::find(expected.begin(), expected.end(), 1),
        expected.end());
    EXPECT_EQ(lines_of(greedy.out).at(0).at("ids"), expected);

    const json beams = golden(model).at("beams").at(2);
    const Result found = run(words(
        model,
        {"--prompt-ids",
         joined(beams.at("source").get<Ids>(), ","),
         "--beam-width",
         "4",
         "--out-seq-length",
         "8"}));
    ASSERT_EQ(found.code, 0) << found.err;
    const auto lines = lines_of(found.out);
    ASSERT_EQ(lines.size(), 4U);
    EXPECT_EQ(lines[0].at("ids"), beams.at("ids").at(0));
  }
}

TEST(GenerateT5, ReadsTheLinesOfAFile) {
  TemporaryFolder folder;
  folder.write("in", "5 17 3\n9 8\n");
  const std::string in = (folder.path() / "in").string();
  const Words text{"--tokenizer-type", "NullTokenizer", "--vocab-size", "411"};
  const Words how = text + Words{"--greedy", "--out-seq-length", "6"};
  const Result result =
      run(words("t5_relu", how + Words{"--sample-input-file", in}));
  ASSERT_EQ(result.code, 0) << result.err;
  const auto texts = lines_of(testing::read_text(in + ".out"));
  ASSERT_EQ(texts.size(), 2U);
  // The end token, 1, stands behind what the encoder reads.
  const Result ids = run(words(
      "t5_relu",
      {"--prompt-ids", "5,17,3,1", "--greedy", "--out-seq-length", "6"}));
  EXPECT_EQ(
      texts[0].at("text"),
      joined(lines_of(ids.out).at(0).at("ids").get<Ids>(), " "));

  EXPECT_THAT(
      run(words("t5_relu", text + Words{"--num-samples", "1"})).err,
      HasSubstr("a T5 writes nothing without a text to read"));
  EXPECT_THAT(
      run(words(
              "t5_relu",
              how + Words{"--recompute", "--sample-input-file", in}))
          .err,
      HasSubstr("--recompute: a T5 writes on the CPU"));
}

TEST(ServeT5, AnswersWithTheTextsOfTransformers) {
  Command command(cairn(
      {"serve",
       "--load",
       CAIRN_GOLDEN_DIR "/models/t5_gated_gelu",
       "--tokenizer-type",
       "NullTokenizer",
       "--vocab-size",
       "511",
       "--port",
       "0",
       "--max-source-tokens",
       "30"}));
  command.wait_for(" until Ctrl-C");
  const std::string& out = command.out();
  const int port = std::atoi(out.c_str() + out.find("127.0.0.1:") + 10);
  const auto complete = [&](const json& source) {
    const json request{
        {"prompt", source},
        {"max_tokens", 24},
        {"temperature", 0}};
    return post(port, "/v1/completions", request.dump());
  };
  const json rows = golden("t5_gated_gelu").at("greedy");
  for (std::size_t i = 0; i < 4; ++i) {
    const json reply = json::parse(body_of(complete(rows[i]["source"])));
    EXPECT_EQ(
        reply["choices"][0]["text"],
        joined(rows[i]["ids"].get<Ids>(), " "));
  }
  EXPECT_THAT(
      complete(rows[4]["source"]),
      HasSubstr("the prompt has 40 tokens, and this model reads at most 30"));
  command.send(SIGTERM);
  EXPECT_EQ(command.finish().code, 0);
}

TEST(ServeT5, RefusesFlagsThatOnlyWriteTexts) {
  const Result result = run(cairn(
      {"serve",
       "--load",
       CAIRN_GOLDEN_DIR "/models/t5_relu",
       "--beam-width",
       "4"}));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(
      result.err,
      HasSubstr("--beam-width: is a flag of `cairn generate`"));
}

} // namespace
} // namespace cairn::cli::generate_t5_test
