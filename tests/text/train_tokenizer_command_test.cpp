#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

namespace cairn::testing::train_tokenizer_command_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string golden = CAIRN_GOLDEN_DIR "/tokenizers/train/";

Words command(Words words) {
  words.insert(
      words.begin(),
      {CAIRN_BINARY_DIR "/bin/cairn", "train-tokenizer"});
  return words;
}

void gzip(const std::string& file, const std::string& text) {
  gzFile out = ::gzopen(file.c_str(), "wb");
  ::gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
  ::gzclose(out);
}

TEST(TrainTokenizerCommand, LearnsFromPlainText) {
  const TemporaryFolder folder;
  const auto result = run(command(
      {golden + "own.txt",
       folder / "out",
       "--vocab_size=600",
       "--workers",
       "3"}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("600 entries and 343 merges"));
  EXPECT_THAT(result.out, HasSubstr("peak memory"));
  EXPECT_EQ(
      read_text(folder / "out" / "merges.txt"),
      read_text(golden + "own600-merges.txt"));
  EXPECT_EQ(
      read_text(folder / "out" / "tokenizer.json"),
      read_text(golden + "own600-tokenizer.json"));
}

// A document's spaces after a line end belong together; a file's do not, since
// it is read line by line.
TEST(TrainTokenizerCommand, TakesJsonlTextByText) {
  const TemporaryFolder folder;
  const auto lines = folder.write(
      "a.jsonl",
      "{\"text\": \"\\n\\n\\n\\n\\n\\n\", \"x\": 1}\n\n"
      "{\"text\": [\"\\n\\n\\n\\n\\n\\n\"]}\n");
  const auto text = folder.write("a.txt", "\n\n\n\n\n\n\n\n\n\n\n\n");
  gzip(folder / "b.json.gz", "{\"body\": \"\\n\\n\\n\\n\"}");
  ASSERT_EQ(run(command({lines, folder / "1"})).code, 0);
  EXPECT_EQ(
      read_text(folder / "1" / "merges.txt"),
      "#version: 0.2\nĊ Ċ\nĊĊ ĊĊ\nĊĊĊĊ ĊĊ\n");
  ASSERT_EQ(run(command({text, folder / "2"})).code, 0);
  EXPECT_EQ(read_text(folder / "2" / "merges.txt"), "#version: 0.2\n");
  // The name has no ending, like WikiExtractor's output joined into one file.
  const auto nameless =
      run(command({folder.write("all", read_text(lines)), folder / "all-out"}));
  EXPECT_THAT(nameless.err, HasSubstr("is taken as JSONL"));
  EXPECT_EQ(
      read_text(folder / "all-out" / "merges.txt"),
      read_text(folder / "1" / "merges.txt"));
  const auto packed = run(command(
      {folder / "b.json.gz",
       folder / "3",
       "--json-key",
       "body",
       "--special-tokens",
       ""}));
  ASSERT_EQ(packed.code, 0) << packed.err;
  EXPECT_EQ(read_text(folder / "3" / "merges.txt"), "#version: 0.2\nĊ Ċ\n");
  EXPECT_THAT(
      read_text(folder / "3" / "vocab.json"),
      ::testing::StartsWith("{\"!\":0"));
}

TEST(TrainTokenizerCommand, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  const auto fails = [&](const Words& words, int code, const char* why) {
    const auto result = run(command(words));
    EXPECT_EQ(result.code, code) << why;
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_FALSE(fs::exists(out)) << why;
  };
  const auto text = folder.write("a.txt", "some text\n");
  const auto broken =
      folder.write("b.jsonl", "{\"text\": \"x\"}\n{\"text\": \"y\n");
  fails({text}, 2, "an INPUT and an OUTDIR are needed");
  fails({text, out, "--vocab-size", "20"}, 2, "take at least 257");
  fails({text, out, "--vocab-siz", "20"}, 2, "did you mean --vocab-size?");
  fails({text, out, "--min-frequency", "-1"}, 2, "--min-frequency");
  fails({text, out, "--json-key", "body"}, 2, "--json-key is for JSONL");
  fails({text + "x", out}, 1, "a.txtx");
  fails({broken, out}, 1, "b.jsonl:2: ");
  fails({broken, out, "--json-key", "body"}, 1, "b.jsonl:1: ");
  fails({folder.write("e.txt", ""), out}, 1, "no text to learn from");
  fails({text, text}, 1, "is no folder");
  fails({text, folder.path()}, 1, "is not empty");
}

TEST(TrainTokenizerCommand, LeavesNothingWhenKilled) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Command training(command({pipe, folder / "out"}));
  const UniqueFd end(::open(pipe.c_str(), O_WRONLY)); // it reads by now
  ASSERT_EQ(::write(end.get(), "some text\n", 10), 10);
  training.send(SIGKILL);
  EXPECT_EQ(training.finish().code, 128 + SIGKILL);
  EXPECT_FALSE(fs::exists(folder / "out"));
}

// The limit on a file's size kills the command within its first file.
TEST(TrainTokenizerCommand, LeavesNothingWhenKilledAsItWrites) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "empty");
  for (const char* out : {"out", "empty"}) {
    Words words{"bash", "-c", "ulimit -c 0 -f 1; exec \"$@\"", "bash"};
    for (const std::string& word :
         command({golden + "own.txt", folder / out, "--vocab-size", "600"})) {
      words.push_back(word);
    }
    EXPECT_EQ(run(words).code, 128 + SIGXFSZ) << out;
  }
  EXPECT_FALSE(fs::exists(folder / "out"));
  EXPECT_FALSE(fs::exists(folder / "empty" / "vocab.json"));
  EXPECT_FALSE(fs::exists(folder / "empty" / "tokenizer.json"));
}

TEST(TrainTokenizerCommand, TakesTheCurrentFolder) {
  const TemporaryFolder folder;
  Words words{"bash", "-c", "cd \"$0\" && exec \"$@\"", folder.path()};
  for (const std::string& word :
       command({golden + "own.txt", ".", "--vocab-size", "600"})) {
    words.push_back(word);
  }
  const auto result = run(words);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(
      read_text(folder / "tokenizer.json"),
      read_text(golden + "own600-tokenizer.json"));
}

} // namespace
} // namespace cairn::testing::train_tokenizer_command_test
