#include "text/internal/bpe_trainer.h"
#include "support/command.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/text/tokenizer.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace cairn::text::bpe_trainer_test {
namespace {

namespace fs = std::filesystem;
using cairn::testing::read_text;
using cairn::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

const fs::path golden = CAIRN_GOLDEN_DIR "/tokenizers/train";

/// Counts lines with their line ends, dealt out to so many counters.
WordCounter count_lines(std::string_view text, std::size_t counters = 1) {
  std::vector<WordCounter> parts;
  parts.emplace_back();
  while (parts.size() < counters) {
    parts.push_back(parts[0].fresh());
  }
  for (std::size_t i = 0; !text.empty(); ++i) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    parts[i % counters].add(text.substr(0, end));
    text.remove_prefix(end);
  }
  for (std::size_t i = 1; i < counters; ++i) {
    parts[0].add(parts[i]);
  }
  return std::move(parts[0]);
}

void expect_golden(
    const char* text,
    const std::string& name,
    const BpeTrainerOptions& options,
    std::size_t counters) {
  const TemporaryFolder folder;
  const auto words = count_lines(read_text(golden / text), counters);
  write_tokenizer(train_bpe(words, options), folder / "out");
  for (const char* file : {"vocab.json", "merges.txt", "tokenizer.json"}) {
    const auto expected = golden / (name + "-" + file);
    if (fs::exists(expected)) {
      EXPECT_TRUE(read_text(folder / "out" / file) == read_text(expected))
          << expected;
    }
  }
}

TEST(BpeTrainer, MakesTheFilesOfHuggingFace) {
  for (const std::size_t counters : {1, 2, 7}) { // as threads would have
    expect_golden("own.txt", "own600", {.vocab_size = 600}, counters);
    expect_golden("own.txt", "own3000", {.vocab_size = 3000}, counters);
    expect_golden(
        "special.txt",
        "special",
        {.vocab_size = 5000,
         .min_frequency = 1,
         .special_tokens = {"<|endoftext|>", "ab", "a", "ab"}},
        counters);
  }
}

TEST(BpeTrainer, TakesTheMostFrequentPairAndOfEqualsTheSmaller) {
  WordCounter words;
  words.add("zy zy ba ba xw");
  const auto trained = train_bpe(words, {.vocab_size = 262});
  std::vector<std::string> made(
      trained.tokens.begin() + 257,
      trained.tokens.end());
  // " b" and " zy" each occur once or twice, "ba" and "zy" twice.
  EXPECT_THAT(made, ElementsAre("ba", "zy", "Ġba"));
}

TEST(BpeTrainer, StopsWhereNoPairIsFrequentEnough) {
  WordCounter words;
  words.add("abab abab");
  std::size_t calls = 0;
  const BpeTrainerOptions options{.vocab_size = 1000, .min_frequency = 3};
  const auto trained = train_bpe(words, options, [&] { ++calls; });
  EXPECT_EQ(trained.merges.size(), 1U); // a b, four times
  EXPECT_EQ(calls, 1U);
  EXPECT_EQ(trained.tokens.size(), first_merged_id(options) + 1);
}

TEST(BpeTrainer, GivesSpecialTokensTheFirstIds) {
  const auto trained =
      train_bpe(WordCounter(), {.special_tokens = {"<s>", "é", "<s>", "a\"b"}});
  EXPECT_EQ(trained.special_tokens, 3U);
  EXPECT_EQ(trained.tokens.size(), 3U + 255U); // é stands for a byte
  EXPECT_EQ(trained.tokens[2], "a\"b");
  EXPECT_TRUE(trained.merges.empty());
}

TEST(BpeTrainer, RefusesWhatCannotBe) {
  const auto refuses = [](const BpeTrainerOptions& options, const char* why) {
    try {
      train_bpe(WordCounter(), options);
      ADD_FAILURE() << "accepted, not: " << why;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  };
  refuses({.vocab_size = 256}, "take at least 257");
  refuses({.special_tokens = {""}}, "a special token is empty");
  refuses({.special_tokens = {"\xff"}}, "a special token is no UTF-8");
}

TEST(BpeTrainer, MakesATokenizerThatGivesAllBytesBack) {
  const TemporaryFolder folder;
  const auto words = count_lines(read_text(golden / "own.txt"));
  write_tokenizer(train_bpe(words, {.vocab_size = 600}), folder / "out");
  const auto from_pair = load_tokenizer(
      {.type = "GPT2BPETokenizer",
       .vocab_file = folder / "out" / "vocab.json",
       .merge_file = folder / "out" / "merges.txt"});
  const auto from_one =
      load_tokenizer({.model_file = folder / "out" / "tokenizer.json"});
  std::string text = "Any bytes: ";
  for (int byte = 0; byte < 256; ++byte) {
    text += static_cast<char>(byte);
  }
  const auto ids = from_pair->encode(text);
  EXPECT_EQ(from_one->encode(text), ids);
  EXPECT_EQ(from_pair->decode(ids), text);
  EXPECT_EQ(from_pair->vocab_size(), 600U);
}

TEST(WriteTokenizer, WantsANewOrEmptyFolder) {
  const TemporaryFolder folder;
  const auto trained = train_bpe(WordCounter(), {});
  fs::create_directory(folder / "empty");
  write_tokenizer(trained, folder / "empty");
  write_tokenizer(trained, folder / "deep" / "er" / "");
  EXPECT_TRUE(fs::exists(folder / "deep" / "er" / "tokenizer.json"));
  EXPECT_THROW(write_tokenizer(trained, folder / "empty"), DataError);
  fs::create_directory(folder / "deep" / "behind");
  fs::create_directory_symlink("behind", folder / "deep" / "link");
  write_tokenizer(trained, folder / "deep" / "link");
  EXPECT_TRUE(fs::exists(folder / "deep" / "behind" / "tokenizer.json"));
  EXPECT_TRUE(fs::is_symlink(folder / "deep" / "link"));
  write_tokenizer(trained, folder / "deep" / "new" / ".");
  EXPECT_TRUE(fs::exists(folder / "deep" / "new" / "tokenizer.json"));
  fs::create_directory_symlink("nothing", folder / "deep" / "dangling");
  EXPECT_THROW(
      prepare_tokenizer_folder(folder / "deep" / "dangling"),
      DataError);
  EXPECT_THROW(prepare_tokenizer_folder(""), DataError);
  folder.write("file", "");
  EXPECT_THROW(prepare_tokenizer_folder(folder / "file"), DataError);
  EXPECT_THROW(prepare_tokenizer_folder(folder / "file" / "x"), DataError);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("empty", "deep", "file"));
}

TEST(WriteTokenizer, LeavesAWholeSetOrNoneWhenKilled) {
  const TemporaryFolder folder;
  const auto words = count_lines(read_text(golden / "own.txt"));
  const auto trained = train_bpe(words, {.vocab_size = 600});
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  write_tokenizer(trained, folder / "first");
  const auto once = Clock::now() - start;
  for (int run = 0; run < 12; ++run) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0;; ++i) {
        write_tokenizer(
            trained,
            folder / (std::to_string(run) + "_" + std::to_string(i)));
      }
    }
    std::this_thread::sleep_for(once * run / 6); // before it is done, and after
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    if (entry.path().filename().string().find("partial") != std::string::npos) {
      continue;
    }
    EXPECT_EQ(
        read_text(entry.path() / "vocab.json"),
        read_text(golden / "own600-vocab.json"));
    EXPECT_EQ(
        read_text(entry.path() / "merges.txt"),
        read_text(golden / "own600-merges.txt"));
    EXPECT_EQ(
        read_text(entry.path() / "tokenizer.json"),
        read_text(golden / "own600-tokenizer.json"));
  }
}

std::vector<std::pair<std::string, std::uint64_t>> counted(
    const WordCounter& words) {
  std::vector<std::pair<std::string, std::uint64_t>> list;
  words.visit([&](std::string_view word, std::uint64_t count) {
    list.emplace_back(word, count);
  });
  std::sort(list.begin(), list.end());
  return list;
}

TEST(WordCounter, CountsThePiecesOfThePattern) {
  WordCounter words;
  words.add("a b's  a\n a");
  words.add(" a");
  EXPECT_THAT(
      counted(words),
      ElementsAre(
          Pair("\n", 1U),
          Pair(" ", 1U),
          Pair(" a", 3U),
          Pair(" b", 1U),
          Pair("'s", 1U),
          Pair("a", 1U)));
  EXPECT_EQ(words.total(), 8U);
  EXPECT_EQ(words.distinct(), 6U);
}

TEST(WordCounter, KeepsWordsOfAnyLengthApart) {
  WordCounter words;
  std::string text;
  for (std::size_t size = 1; size < 40; ++size) {
    for (std::size_t times = 0; times < size; ++times) {
      text.assign(size, 'x');
      words.add(text); // at the end of memory: nothing past it may be read
      words.add(std::string(size, 'x') + '\0' + std::string(20, ' '));
    }
  }
  const auto list = counted(words);
  ASSERT_EQ(list.size(), 39U + 2U); // the zero byte and the spaces as well
  for (const auto& [word, count] : list) {
    if (word[0] == 'x') {
      EXPECT_EQ(count, 2 * word.size());
    }
  }
}

TEST(WordCounter, GrowsAndAddsUp) {
  WordCounter first;
  WordCounter second = first.fresh();
  for (int i = 0; i < 50'000; ++i) {
    const std::string word = std::to_string(i);
    first.add(word);
    second.add(word + " " + word);
  }
  EXPECT_EQ(first.distinct(), 50'000U);
  first.add(second);
  EXPECT_EQ(first.distinct(), 100'000U); // with and without a space
  EXPECT_EQ(first.total(), 150'000U);
  for (const auto& [word, count] : counted(first)) {
    ASSERT_EQ(count, word[0] == ' ' ? 1U : 2U) << word;
  }
}

} // namespace
} // namespace cairn::text::bpe_trainer_test
