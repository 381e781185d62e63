#include <cairn/base/error.h>

#include "corpus/internal/wiki_dump.h"
#include "corpus/wiki/wiki_page.h"
#include "corpus/wiki/wiki_page_reader.h"
#include "support/command.h"
#include "support/fuzz.h"
#include "support/temporary_folder.h"

#include <bzlib.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace cairn::corpus::wiki_dump_test {
namespace {

using ::testing::HasSubstr;

const std::string dump = CAIRN_SOURCE_DIR "/tests/corpus/wiki_dump.xml";
const std::string cairn = CAIRN_BINARY_DIR "/bin/cairn";

const std::string expected =
    "{\"id\": \"12\", \"revid\": \"1001\", \"url\": "
    "\"https://small.example.org/wiki?curid=12\", \"title\": \"Cairn\", "
    "\"text\": \"A cairn is a man-made pile of stones raised as a "
    "\\\"marker\\\". It is \\\"old\\\" & useful.\\n"
    "Hikers (IPA: ; ) build many of them.\\n"
    "History.\\nMiddle ages.\\n"
    "Some were used for surveys of 1,000\u00a0m peaks (list of peaks) and "
    "more.\\n"
    "After the table.\\n"
    "See also?\\n"
    "Nothing was ever found there...\"}\n"
    "{\"id\": \"15\", \"revid\": \"1004\", \"url\": "
    "\"https://small.example.org/wiki?curid=15\", \"title\": \"Stones & "
    "bones: a film\", \"text\": \"The film \\\"Stones\\\" tells of formula_1 "
    "stones, then of formula_2, and of formula_1 again. Code is codice_1.\\n"
    "Kept words\\n"
    "'''[[plain]]''' remains.\\n"
    "It is 5 < 6 – naïve “quotes” 東京.\"}\n";

std::string squeezed(std::string_view text) {
  std::string out(text.size() + text.size() / 100 + 700, '\0');
  unsigned size = static_cast<unsigned>(out.size());
  EXPECT_EQ(
      ::BZ2_bzBuffToBuffCompress(
          out.data(),
          &size,
          const_cast<char*>(text.data()),
          static_cast<unsigned>(text.size()),
          9,
          0,
          0),
      BZ_OK);
  out.resize(size);
  return out;
}

TEST(WikiDump, ArticlesOfTheTestDump) {
  const testing::TemporaryFolder folder;
  const auto output = folder / "wiki.jsonl";
  const WikiDumpReport report =
      extract_wiki_dump({.input = dump, .output = output}, Logger());
  EXPECT_EQ(testing::read_text(output), expected);
  EXPECT_EQ(report.pages, 7U);
  EXPECT_EQ(report.articles, 2U);
  EXPECT_EQ(report.redirects, 1U);
  EXPECT_EQ(report.other_namespaces, 1U);
  EXPECT_EQ(report.other_content, 1U);
  EXPECT_EQ(report.without_text, 2U);
}

TEST(WikiDump, NamespacesAreChosenByNumber) {
  const testing::TemporaryFolder folder;
  const auto output = folder / "talk.jsonl";
  extract_wiki_dump(
      {.input = dump, .output = output, .namespaces = {1}},
      Logger());
  EXPECT_THAT(testing::read_text(output), HasSubstr("\"Hello there.\""));
}

/// Wikipedia's multistream dumps are many bzip2 streams one after another.
TEST(WikiDump, ManyStreamsInOneFile) {
  const testing::TemporaryFolder folder;
  const std::string xml = testing::read_text(dump);
  std::string file;
  for (std::size_t at = 0; at < xml.size(); at += 700) {
    file += squeezed(std::string_view(xml).substr(at, 700));
  }
  const auto result = testing::run(
      {cairn, "data", "wiki", folder.write("x.xml.bz2", file), "-o", "-"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, expected);
  EXPECT_THAT(result.err, HasSubstr("2 articles"));
}

/// A dump of so many pages that they reach several workers.
std::string large_dump(int pages) {
  std::string xml = "<mediawiki><siteinfo><base>http://a/b</base></siteinfo>\n";
  for (int i = 0; i < pages; ++i) {
    xml += "<page><title>T" + std::to_string(i) + "</title><ns>0</ns><id>" +
        std::to_string(i) + "</id><revision><id>1</id><text>'''Page''' " +
        std::to_string(i) +
        std::string(static_cast<std::size_t>(i % 977), 'x') +
        " [[a|b]]</text></revision></page>\n";
  }
  return xml + "</mediawiki>\n";
}

TEST(WikiDump, SameOutputForAnyNumberOfWorkers) {
  const testing::TemporaryFolder folder;
  const std::string input = folder.write("d.xml", large_dump(10000));
  std::string first;
  for (const std::size_t workers : {1, 2, 6}) {
    const auto output = folder / ("w" + std::to_string(workers));
    const auto report = extract_wiki_dump(
        {.input = input, .output = output, .workers = workers},
        Logger());
    EXPECT_EQ(report.articles, 10000U);
    const std::string bytes = testing::read_text(output);
    first = first.empty() ? bytes : first;
    EXPECT_TRUE(bytes == first) << workers << " workers";
  }
}

TEST(WikiDump, AFolderGetsNumberedFiles) {
  const testing::TemporaryFolder folder;
  const std::string input = folder.write("d.xml", large_dump(2000));
  const auto whole = folder / "whole";
  extract_wiki_dump({.input = input, .output = whole}, Logger());
  extract_wiki_dump(
      {.input = input,
       .output = (folder / "parts").string() + "/",
       .bytes_per_file = 10000},
      Logger());
  std::string joined;
  for (int i = 0;; ++i) {
    const std::string name = std::string("parts/A") +
        static_cast<char>('A' + i / 100) + "/wiki_" +
        (i % 100 < 10 ? "0" : "") + std::to_string(i % 100);
    const std::string part = testing::read_text(folder / name);
    if (part.empty()) {
      EXPECT_GT(i, 100);
      break;
    }
    EXPECT_LE(part.size(), 10000U);
    EXPECT_TRUE(part.ends_with("}\n"));
    joined += part;
  }
  EXPECT_TRUE(joined == testing::read_text(whole));
}

TEST(WikiDump, AFolderIsFilledAtTheEndOnly) {
  const testing::TemporaryFolder folder;
  const std::string whole = large_dump(3000);
  const WikiDumpOptions options{
      .input = folder.write("d.xml", whole.substr(0, whole.size() - 100)),
      .output = (folder / "parts").string() + "/",
      .bytes_per_file = 500000};
  EXPECT_THROW(extract_wiki_dump(options, Logger()), DataError);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "parts"));
  // Remains of a killed run are no obstacle, results of a good run are.
  std::filesystem::create_directories(folder / "parts/.unfinished/AA");
  folder.write("d.xml", whole);
  extract_wiki_dump(options, Logger());
  EXPECT_FALSE(std::filesystem::exists(folder / "parts/.unfinished"));
  EXPECT_TRUE(std::filesystem::exists(folder / "parts/AA/wiki_00"));
  EXPECT_THROW(extract_wiki_dump(options, Logger()), DataError);
}

std::string page(const std::string& title, const std::string& rest) {
  return "<page><title>" + title + "</title><ns>0</ns><id>1</id>" + rest +
      "</page>\n";
}

std::string revision(const std::string& text) {
  return "<revision><id>2</id><text>" + text + "</text></revision>";
}

TEST(WikiDump, PagesOfAnySizeTakeBoundedMemory) {
  const std::string long_text(5 << 20, 'x');
  std::string history;
  for (int i = 0; i < 8; ++i) {
    history += revision("old " + long_text.substr(0, 1 << 20));
  }
  const testing::TemporaryFolder folder;
  const std::string input = folder.write(
      "d.xml",
      "<mediawiki>" + page("Small", revision("first")) +
          page("Huge", revision(long_text)) + page("Next", revision("second")) +
          page("History", history + revision("newest")) +
          page("Last", revision("third")) + "</mediawiki>");
  const auto output = folder / "out.jsonl";
  const WikiDumpReport report = extract_wiki_dump(
      {.input = input, .output = output, .largest_page = 3 << 20},
      Logger());
  EXPECT_EQ(report.pages, 5U);
  EXPECT_EQ(report.articles, 4U);
  EXPECT_EQ(report.too_large, 1U);
  const std::string text = testing::read_text(output);
  EXPECT_LT(text.size(), 1000U);
  for (const char* words : {"first", "second", "newest", "third"}) {
    EXPECT_THAT(text, HasSubstr(words));
  }
  const std::string cut =
      testing::read_text(input).substr(0, std::size_t{4} << 20);
  EXPECT_THROW(
      extract_wiki_dump(
          {.input = folder.write("cut.xml", cut),
           .output = folder / "cut.jsonl",
           .largest_page = 1 << 20},
          Logger()),
      DataError);
}

TEST(WikiDump, PunctuationOnRequest) {
  const testing::TemporaryFolder folder;
  const std::string input = folder.write(
      "d.xml",
      "<mediawiki>" + page("A", revision("“One” – two…")) + "</mediawiki>");
  const auto output = folder / "out.jsonl";
  extract_wiki_dump(
      {.input = input, .output = output, .standardize_punctuation = true},
      Logger());
  EXPECT_THAT(
      testing::read_text(output),
      HasSubstr("\"text\": \"\\\"One\\\" - two...\""));
}

TEST(WikiDump, BrokenDumpsAreRefusedAndLeaveNoFile) {
  const testing::TemporaryFolder folder;
  const auto output = folder / "out.jsonl";
  const auto extract = [&](std::string_view xml) {
    extract_wiki_dump(
        {.input = folder.write("d.xml", xml), .output = output},
        Logger());
  };
  const auto message = [&](std::string_view xml) -> std::string {
    try {
      extract(xml);
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message("just text"), HasSubstr("is no MediaWiki dump"));
  EXPECT_THAT(message(""), HasSubstr("is no MediaWiki dump"));
  const std::string whole = large_dump(3000);
  EXPECT_THAT(
      message(whole.substr(0, whole.size() - 100)),
      HasSubstr("ends within a page"));
  EXPECT_FALSE(std::filesystem::exists(output));
}

TEST(WikiDump, Fuzz) {
  const testing::TemporaryFolder folder;
  const int accepted = testing::fuzz(
      {.seeds =
           {testing::read_text(dump).substr(0, 3000) +
                "</text></revision></page></mediawiki>",
            large_dump(3)},
       .pieces =
           {"<page>",
            "</page>",
            "<text",
            "</text>",
            "<revision>",
            "<id>",
            "<title>",
            "<mediawiki>",
            "</mediawiki>",
            "/>",
            "&lt;",
            "<ns>-9"},
       .runs = 250},
      [&](const std::string& input) {
        WikiPageReader reader(folder.write("d.xml", input), 2000);
        WikiSite::from(reader.head());
        std::string pages;
        while (reader.next(pages)) {
          const WikiPage page = WikiPage::from(pages);
          EXPECT_LE(page.text.size(), pages.size());
        }
      });
  EXPECT_GT(accepted, 0);
}

/// Ctrl-C leaves no output, and nothing beside it.
TEST(WikiCommand, Interrupted) {
  const testing::TemporaryFolder folder;
  const auto pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  testing::Command command(
      {cairn, "data", "wiki", pipe, "--output", folder / "out.jsonl"});
  // Opening for writing waits until the command reads.
  std::ofstream writer(pipe, std::ios::binary);
  writer << large_dump(20000).substr(0, 4 << 20) << std::flush;
  command.send(SIGINT);
  EXPECT_EQ(command.finish().code, 130);
  std::filesystem::remove(pipe);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(WikiCommand, Errors) {
  const auto missing = testing::run(
      {cairn, "data", "wiki", "/nonexistent.xml", "--output", "-"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("/nonexistent.xml"));
  const auto no_output = testing::run({cairn, "data", "wiki", dump});
  EXPECT_EQ(no_output.code, 2);
  EXPECT_THAT(no_output.err, HasSubstr("--output"));
}

} // namespace
} // namespace cairn::corpus::wiki_dump_test
