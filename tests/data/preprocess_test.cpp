#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/data/indexed_dataset.h>
#include <cairn/text/tokenizer.h>

#include "data/golden_indexed.h"
#include "data/internal/preprocess.h"
#include "support/temporary_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <string>
#include <thread>
#include <vector>

namespace cairn::data::preprocess_test {
namespace {

using cairn::testing::TemporaryFolder;
using fixtures::all_documents;
using fixtures::Documents;
using fixtures::slurp;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const text::Tokenizer> gpt2() {
  const std::string folder = CAIRN_GOLDEN_DIR "/tokenizers/gpt2/";
  return text::load_tokenizer(
      {.type = "GPT2BPETokenizer",
       .vocab_file = folder + "vocab.json",
       .merge_file = folder + "merges.txt"});
}

class Preprocess : public ::testing::Test {
 protected:
  PreprocessReport run(const std::string& lines) {
    options_.inputs = {folder_.write("in.jsonl", lines)};
    return run();
  }
  PreprocessReport run() {
    options_.output_prefix = folder_ / "out";
    options_.existing = Existing::replace;
    return preprocess(
        options_,
        Logger({.least = LogLevel::error}),
        [this](const PreprocessReport& now) { seen_ = now; });
  }
  std::string refusal(const std::string& lines) {
    try {
      run(lines);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }
  Documents documents(const std::string& key = "text") const {
    return all_documents(IndexedDataset(output_of(options_, key)));
  }
  std::vector<std::string> outputs() const {
    std::vector<std::string> names;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder_.path())) {
      if (entry.path().filename() != "in.jsonl") {
        names.push_back(entry.path().filename().string());
      }
    }
    return names;
  }
  std::vector<std::int64_t> encoded(std::string_view text) {
    std::vector<text::TokenId> ids;
    encoder_->encode(text, ids);
    return {ids.begin(), ids.end()};
  }
  static std::string line(const std::string& text) {
    return nlohmann::json{{"text", text}}.dump() + "\n";
  }

  TemporaryFolder folder_;
  std::shared_ptr<const text::Tokenizer> gpt2_ = gpt2();
  std::unique_ptr<text::Encoder> encoder_ = gpt2_->make_encoder();
  PreprocessOptions options_{.tokenizer = gpt2_, .workers = 3};
  PreprocessReport seen_;
};

TEST_F(Preprocess, EveryLineIsADocument) {
  options_.append_eod = true;
  const auto report =
      run("\xef\xbb\xbf" + line("one two") + "\n" + line("") + "  \r\n" +
          "{\"text\": [\"a b\", \"\", \"c\"]}\r\n" + "{\"text\": \"last\"}");
  auto one = encoded("one two");
  one.push_back(50256);
  auto last = encoded("last");
  last.push_back(50256);
  auto c = encoded("c");
  c.push_back(50256);
  EXPECT_EQ(documents(), (Documents{{one}, {}, {encoded("a b"), c}, {last}}));
  EXPECT_EQ(report.documents, 4U);
  EXPECT_EQ(report.skipped, 0U);
  EXPECT_EQ(report.type, TokenType::uint16);
  EXPECT_EQ(report.tokens, one.size() + last.size() + c.size() + 2);
  EXPECT_EQ(
      report.bytes_read,
      std::filesystem::file_size(folder_ / "in.jsonl"));
  EXPECT_EQ(
      report.bytes_written,
      std::filesystem::file_size(folder_ / "out_text_document.bin") +
          std::filesystem::file_size(folder_ / "out_text_document.idx"));
  EXPECT_EQ(seen_.documents, 4U);
  EXPECT_EQ(stored_size(options_), report.bytes_read);
}

TEST_F(Preprocess, OrderIsKeptOverManyBlocksAndInputs) {
  std::string lines;
  Documents expected;
  for (int i = 0; i < 40'000; ++i) {
    const std::string text =
        "document " + std::to_string(i) + std::string(i % 400, 'x');
    lines += line(text);
    expected.push_back({encoded(text)});
  }
  options_.inputs = {
      folder_.write("in.jsonl", lines),
      folder_.write("in.jsonl", lines)};
  auto twice = expected;
  twice.insert(twice.end(), expected.begin(), expected.end());
  EXPECT_EQ(run().documents, 80'000U);
  EXPECT_EQ(documents(), twice);

  options_.partitions = 7;
  run();
  Documents dealt;
  for (std::size_t p = 0; p < 7; ++p) {
    for (std::size_t i = p; i < twice.size(); i += 7) {
      dealt.push_back(twice[i]);
    }
  }
  EXPECT_EQ(documents(), dealt);
}

/// Splits every million characters by themselves, as Megatron does.
void split_by_million(
    const text::SentenceSplitter& splitter,
    std::string_view text,
    std::vector<std::string_view>& all) {
  while (!text.empty()) {
    std::size_t end = 0;
    for (int characters = 0; end < text.size(); ++end) {
      const bool starts =
          (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
      if (starts && characters++ == 1'000'000) {
        break;
      }
    }
    std::vector<std::string_view> sentences;
    splitter.split(text.substr(0, end), sentences, false);
    all.insert(all.end(), sentences.begin(), sentences.end());
    text.remove_prefix(end);
  }
}

TEST_F(Preprocess, AHugeDocumentIsWrittenInPieces) {
  std::string text;
  for (int i = 0; text.size() < (25U << 20); ++i) {
    text += "word" + std::to_string(i % 1000) + " and, \"more\"\n";
  }
  options_.append_eod = true;
  for (const std::size_t partitions : {1, 2}) {
    options_.partitions = partitions;
    run(line("first") + line(text) + line("last"));
    const auto all = documents();
    ASSERT_EQ(all.size(), 3U);
    auto expected = encoded(text);
    expected.push_back(50256);
    EXPECT_TRUE(all[partitions == 1 ? 1 : 2][0] == expected);
    EXPECT_EQ(all[0][0].back(), 50256);
  }
  options_.partitions = 1;
  options_.splitter = text::SentenceSplitter::english();
  run(line(text));
  std::vector<std::string_view> sentences;
  split_by_million(*options_.splitter, text, sentences);
  const auto all = documents();
  ASSERT_EQ(all[0].size(), sentences.size());
}

TEST_F(Preprocess, AHugeListIsWrittenInPieces) {
  // There are more sentences than are kept; the last ones have no tokens.
  const std::size_t count = 4U << 20;
  std::string list = "{\"text\": [\"first one\"";
  for (std::size_t i = 1; i < count; ++i) {
    list += i % 2 == 0 ? ",\"b\"" : ", \"\\t\"";
  }
  list += ",\"\",\"\"]}\n";
  options_.append_eod = true;
  options_.partitions = 2;
  run(line("before") + line("x") + list + line("last"));
  const auto all = documents();
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].size(), 1U);
  ASSERT_EQ(all[1].size(), count);
  EXPECT_EQ(all[1][0], encoded("first one"));
  EXPECT_EQ(all[1][1], encoded("\t"));
  EXPECT_EQ(all[1][count - 2], encoded("b"));
  EXPECT_EQ(all[1][count - 1][1], 50256); // behind the last that has tokens
  EXPECT_EQ(all[2][0][0], encoded("x")[0]);
  EXPECT_EQ(all[3][0].back(), 50256);
}

TEST_F(Preprocess, MegatronSplitsEveryMillionCharacters) {
  std::string text;
  while (text.size() < 2'500'000) {
    text += "Vögel sing. ";
  }
  options_.splitter = text::SentenceSplitter::english();
  run(line(text));
  std::vector<std::string_view> sentences;
  split_by_million(*options_.splitter, text, sentences);
  const auto all = documents();
  ASSERT_EQ(all[0].size(), sentences.size());
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    ASSERT_EQ(all[0][i], encoded(sentences[i]));
  }
}

TEST_F(Preprocess, TheOlderFormatIsInt32) {
  options_.format = IndexFormat::classic;
  EXPECT_EQ(run(line("one") + line("two")).type, TokenType::int32);
  const IndexedDataset dataset(folder_ / "out_text_document");
  EXPECT_EQ(dataset.format(), IndexFormat::classic);
  EXPECT_EQ(documents(), (Documents{{encoded("one")}, {encoded("two")}}));
}

TEST_F(Preprocess, KeysGetFilesOfTheirOwn) {
  options_.keys = {"a", "b"};
  run("{\"b\": \"second\", \"a\": \"first\"}\n");
  EXPECT_EQ(documents("a"), (Documents{{encoded("first")}}));
  EXPECT_EQ(documents("b"), (Documents{{encoded("second")}}));
}

TEST_F(Preprocess, ABrokenLineIsNamedAndNothingIsLeft) {
  std::string lines;
  for (int i = 0; i < 20'000; ++i) {
    lines += line("fine " + std::string(200, 'x'));
  }
  EXPECT_THAT(
      refusal(lines + "{\"text\": 5}\n" + lines + "broken\n"),
      HasSubstr("in.jsonl:20001: the value of \"text\" is a number"));
  EXPECT_THAT(outputs(), ElementsAre());
  EXPECT_THAT(refusal("\n\n"), HasSubstr("holds no document"));
  EXPECT_THAT(outputs(), ElementsAre());
}

TEST_F(Preprocess, BrokenLinesAreSkippedAsAsked) {
  options_.on_error = OnError::skip;
  options_.keys = {"text", "title"};
  const auto report = run("{\"text\": \"a\", \"title\": \"b\"}\n"
                          "{\"text\": \"no title\"}\n"
                          "{\"text\": \"c\", \"title\": \"\\ud800\"}\n"
                          "nonsense\n"
                          "{\"text\": \"d\", \"title\": \"e\"}\n");
  EXPECT_EQ(report.documents, 2U);
  EXPECT_EQ(report.skipped, 3U);
  EXPECT_EQ(documents(), (Documents{{encoded("a")}, {encoded("d")}}));
  EXPECT_EQ(documents("title"), (Documents{{encoded("b")}, {encoded("e")}}));
  EXPECT_THAT(
      refusal("nonsense\n"),
      HasSubstr("holds no document (1 lines skipped)"));
}

TEST_F(Preprocess, ADocumentThatCannotBeEncodedIsTakenOut) {
  options_.tokenizer =
      text::load_tokenizer({.type = "NullTokenizer", .vocab_size = 100});
  options_.on_error = OnError::skip;
  EXPECT_EQ(run(line("1 2") + line("3 x") + line("4")).skipped, 1U);
  EXPECT_EQ(documents(), (Documents{{{1, 2}}, {{4}}}));
}

TEST_F(Preprocess, ATornInputIsToldAfterTheLinesBeforeIt) {
  options_.inputs = {
      folder_.write("in.jsonl", "{\"text\": 5}\n"),
      folder_ / "out"};
  EXPECT_THAT(
      [&] { run(); },
      ::testing::ThrowsMessage<DataError>(HasSubstr("out: cannot read")));
  folder_.write("torn", "\x1f\x8b\x08");
  options_.inputs[1] = folder_ / "torn";
  EXPECT_THAT(
      [&] { run(); },
      ::testing::ThrowsMessage<DataError>(HasSubstr("in.jsonl:1: ")));
  folder_.write("in.jsonl", line("fine"));
  EXPECT_THAT(
      [&] { run(); },
      ::testing::ThrowsMessage<DataError>(
          HasSubstr("torn: ends in the middle")));
}

TEST_F(Preprocess, AnErrorDoesNotWaitForAnIdlePipe) {
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const UniqueFd kept_open(::open(pipe.c_str(), O_RDWR | O_CLOEXEC));
  // The text fills the first block and no more: the reader waits then.
  const std::string lines = "broken\n" + line(std::string(256 << 10, 'x'));
  std::jthread producer([&] {
    for (std::size_t done = 0; done < lines.size();) {
      const auto count =
          ::write(kept_open.get(), lines.data() + done, lines.size() - done);
      ASSERT_GT(count, 0);
      done += static_cast<std::size_t>(count);
    }
  });
  options_.inputs = {pipe};
  EXPECT_THAT(
      [&] { run(); },
      ::testing::ThrowsMessage<DataError>(HasSubstr("pipe:1: ")));
}

TEST_F(Preprocess, OutputsThatAreThereAreKept) {
  run(line("one"));
  options_.existing = Existing::keep;
  EXPECT_THAT(
      [&] { preprocess(options_, Logger(), [](const auto&) {}); },
      ::testing::ThrowsMessage<DataError>(HasSubstr("exists already")));
  EXPECT_EQ(documents(), (Documents{{encoded("one")}}));
  // This is the state after a commit that was cut off.
  std::filesystem::remove(folder_ / "out_text_document.idx");
  preprocess(options_, Logger(), [](const auto&) {});
  EXPECT_EQ(documents(), (Documents{{encoded("one")}}));
}

TEST_F(Preprocess, OptionsThatMakeNoSenseAreRefused) {
  const auto expect = [&](const char* text) {
    EXPECT_THAT(refusal(line("a")), HasSubstr(text));
  };
  options_.keys = {"text", "text"};
  expect("a key is named twice");
  options_.keys = {"a/b"};
  expect("cannot be part of a file's name");
  options_.keys = {};
  expect("no key");
  options_.keys = {"text"};
  options_.workers = 0;
  expect("at least 1");
  options_.workers = 1;
  options_.inputs = {};
  EXPECT_THROW(run(), ConfigError);
}

} // namespace
} // namespace cairn::data::preprocess_test
