#include "support/command.h"
#include "support/temporary_folder.h"
#include "text/golden_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace cairn::text::tokenize_command_test {
namespace {

using cairn::testing::read_text;
using cairn::testing::Result;
using cairn::testing::TemporaryFolder;
using cairn::testing::Words;
using ::testing::HasSubstr;

const std::string cairn_program = CAIRN_BINARY_DIR "/bin/cairn";

Result tokenize(Words flags) {
  Words words{
      cairn_program,
      "tokenize",
      "--vocab-file",
      fixtures::golden("gpt2/vocab.json"),
      "--merge-file",
      fixtures::golden("gpt2/merges.txt")};
  words.insert(words.end(), flags.begin(), flags.end());
  return cairn::testing::run(words);
}

TEST(TokenizeCommand, EncodesAndDecodesLines) {
  const TemporaryFolder folder;
  const auto text = folder.write("in.txt", "Hello world\n\n the end\r\nlast");
  const auto encoded = tokenize({"--input", text});
  EXPECT_EQ(encoded.code, 0) << encoded.err;
  EXPECT_EQ(encoded.out, "15496 995\n\n262 886 201\n12957\n");
  const auto ids = folder.write("ids.txt", encoded.out);
  EXPECT_EQ(
      tokenize({"--decode", "--input", ids}).out,
      "Hello world\n\n the end\r\nlast\n");
  const auto foreign = folder.write("foreign.txt", "15496, 995\r\n");
  EXPECT_EQ(tokenize({"--decode", "--input", foreign}).out, "Hello world\n");
}

/// Runs the command with a text on its standard input.
Result tokenize_text(const std::string& text, const std::string& flags) {
  const TemporaryFolder folder;
  return cairn::testing::run(
      {"/bin/sh",
       "-c",
       cairn_program + " tokenize --vocab-file " +
           fixtures::golden("gpt2/vocab.json").string() + " --merge-file " +
           fixtures::golden("gpt2/merges.txt").string() + " " + flags + " < " +
           folder.write("in", text)});
}

TEST(TokenizeCommand, SeesJsonLinesOnStandardInput) {
  EXPECT_EQ(
      tokenize_text("{\"text\": \"Hello world\"}\r\n{\"text\": \"\"}\n", "")
          .out,
      "{\"ids\": [15496, 995]}\n{\"ids\": []}\n");
  EXPECT_EQ(
      tokenize_text("{\"ids\": [15496, 995]}\n", "--decode").out,
      "{\"text\":\"Hello world\"}\n");
  EXPECT_EQ(
      tokenize_text("{\"body\": \"Hello\"}\n", "--json-key body").out,
      "{\"ids\": [15496]}\n");
  const auto other = tokenize_text("{\"body\": \"Hello\"}\n", "");
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("has no key \"text\""));
  // Input that only looks like JSONL, or is said to be text, is text.
  EXPECT_EQ(tokenize_text("{Hello\n", "").out, "90 15496\n");
  EXPECT_EQ(tokenize_text("{}\n", "--format lines").out, "90 92\n");
  EXPECT_EQ(tokenize_text("Hello\n", "--json-key body").code, 2);
}

TEST(TokenizeCommand, EncodesAndDecodesJsonLines) {
  const TemporaryFolder folder;
  const auto text = folder.write(
      "in.jsonl",
      "{\"id\": 1, \"body\": \"Hello\\nworld\"}\n"
      "{\"body\": [\"Hello\", \" world\"]}\n{\"body\": \"\"}\n");
  const auto out = folder.path() / "out.jsonl";
  const auto result =
      tokenize({"--input", text, "--output", out, "--json_key", "body"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(
      read_text(out),
      "{\"ids\": [15496, 198, 6894]}\n{\"ids\": [[15496], [995]]}\n"
      "{\"ids\": []}\n");
  const auto ids = folder.write("ids.jsonl", "{\"ids\": [15496, 198, 6894]}\n");
  EXPECT_EQ(
      tokenize({"--decode", "--input", ids}).out,
      "{\"text\":\"Hello\\nworld\"}\n");
}

TEST(TokenizeCommand, LeavesSpecialTokensOut) {
  const TemporaryFolder folder;
  const auto ids = folder.write("ids", "15496 50256 995\n");
  EXPECT_EQ(
      tokenize({"--decode", "--input", ids}).out,
      "Hello<|endoftext|> world\n");
  EXPECT_EQ(
      tokenize({"--decode", "--skip-special-tokens", "--input", ids}).out,
      "Hello world\n");
  const auto text = folder.write("text", "<|endoftext|>\n");
  EXPECT_EQ(tokenize({"--input", text}).out, "50256\n");
  EXPECT_EQ(
      tokenize({"--no-special-tokens-in-text", "--input", text}).out,
      "27 91 437 1659 5239 91 29\n");
}

TEST(TokenizeCommand, NamesTheLineAndLeavesNoOutput) {
  const TemporaryFolder folder;
  const auto out = folder.path() / "out.jsonl";
  const auto broken =
      folder.write("in.jsonl", "{\"text\": \"a\"}\n{\"text\": \n");
  auto result = tokenize({"--input", broken, "--output", out});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("in.jsonl:2"));
  EXPECT_FALSE(std::filesystem::exists(out));
  const auto ids = folder.write("ids.txt", "1 2\n3 x\n");
  result = tokenize({"--decode", "--input", ids});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("ids.txt:2: \"x\" is not an id"));
  const auto high = folder.write("high.jsonl", "{\"ids\": [50257]}\n");
  result = tokenize({"--decode", "--input", high});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("high.jsonl:1"));
}

TEST(TokenizeCommand, RefusesBadUsage) {
  EXPECT_EQ(tokenize({"--format", "xml"}).code, 2);
  EXPECT_EQ(tokenize({"--skip-special-tokens"}).code, 2);
  EXPECT_THAT(
      tokenize({"--json-key", "body"}).err,
      HasSubstr("--json-key is for JSONL"));
  EXPECT_THAT(tokenize({"--decod"}).err, HasSubstr("did you mean --decode?"));
  const auto none = cairn::testing::run({cairn_program, "tokenize"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("no tokenizer is given"));
  EXPECT_EQ(tokenize({"--input", "/nowhere/at/all"}).code, 1);
}

TEST(TokenizeCommand, WritesToADevice) {
  const auto result = tokenize({"--output", "/dev/null"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(TokenizeCommand, EndsWithItsReader) {
  const TemporaryFolder folder;
  std::string many;
  for (int i = 0; i < 200000; ++i) {
    many += "Hello world\n";
  }
  const auto text = folder.write("in.txt", many);
  const auto result = cairn::testing::run(
      {"/bin/sh",
       "-c",
       cairn_program + " tokenize --vocab-file " +
           fixtures::golden("gpt2/vocab.json").string() + " --merge-file " +
           fixtures::golden("gpt2/merges.txt").string() + " --input " + text +
           " | head -n 1"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "15496 995\n");
  EXPECT_EQ(result.err, "");
}

} // namespace
} // namespace cairn::text::tokenize_command_test
