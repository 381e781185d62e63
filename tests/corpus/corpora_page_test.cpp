// The way from addresses to token files on docs/corpora.md, run as printed over
// a server on this machine.

#include "support/command.h"
#include "support/docs_blocks.h"
#include "support/http_server.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace cairn::corpus::corpora_page_test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;

/// A page of words in the order of chance; others for each number.
std::string page(std::uint32_t number) {
  const std::string vocabulary =
      "the of and to in that for it was with be by on not he his but at are "
      "this have from or had an they which you were all her she there would "
      "their we him been has when who will more if out so said what up its "
      "about into than them can only other time new some could these two may "
      "first then do any like my now over such our man even most made after "
      "also did many before must through years where much your way down should "
      "because long each just state those people too how little good world "
      "make very year still see own work men day harbour lighthouse captain "
      "weather storm letter engine bridge valley archive museum festival";
  std::istringstream text(vocabulary);
  const std::vector<std::string> words(
      std::istream_iterator<std::string>(text),
      {});
  std::string page;
  for (int paragraph = 0; paragraph < 5; ++paragraph) {
    page += "<p>It ";
    for (int i = 0; i < 50; ++i) {
      number = number * 1664525U + 1013904223U;
      page += words[(number >> 8) % words.size()] + " ";
    }
    page += "there.</p>\n";
  }
  return page;
}

TEST(CorporaPage, LeadsFromAddressesToTokenFiles) {
  const testing::TemporaryFolder folder;
  testing::HttpServer server;
  std::string list;
  for (std::uint32_t i = 0; i < 12; ++i) {
    const std::string path = "/page" + std::to_string(i);
    // Two of the texts are there twice.
    server.answer(
        path,
        {{.body = "<title>" + path + "</title><nav>menu</nav>" + page(i % 10),
          .headers = "Content-Type: text/html\r\n"}});
    list += server.address(path) + "\n" +
        (i < 3 ? server.address(path) + "\n" : "");
  }
  list += server.address("/gone") + "\nhttps://www.flickr.com/photos/1\n";
  std::filesystem::create_directory(folder / "openwebtext-urls");
  folder.write("openwebtext-urls/RS_2018-10.txt", list);
  const auto blocks =
      testing::blocks_of(CAIRN_SOURCE_DIR "/docs/corpora.md", "sh");
  ASSERT_EQ(blocks.size(), 1U);
  std::string commands = blocks[0];
  const std::string name = "--output pages.jsonl";
  commands.insert(
      commands.find(name) + name.size(),
      " --private-networks --delay 0");
  const auto result =
      testing::Command(
          {"bash",
           "-ec",
           "cd '" + folder.path().string() +
               "'; export PATH='" CAIRN_BINARY_DIR "/bin':$PATH\n"
               "cairn data sample-corpus --output s.jsonl --size 50KB "
               "--workers 1\n"
               "cairn train-tokenizer s.jsonl bpe --vocab-size 300\n"
               "cp bpe/tokenizer.json .\n" +
               commands},
          {{"no_proxy", "*"}})
          .finish();
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(
          ContainsRegex("- blocked domain +1 "),
          ContainsRegex("- there before +3 "),
          ContainsRegex("- status +1\n"),
          ContainsRegex("pages +12, "),
          ContainsRegex("exact duplicate +2 ")));
  const auto lines = [&](const char* file) {
    return std::ranges::count(testing::read_text(folder / file), '\n');
  };
  EXPECT_EQ(lines("pages.jsonl"), 12);
  EXPECT_EQ(lines("clean.jsonl"), 10);
  EXPECT_TRUE(std::filesystem::exists(folder / "webtext_text_document.bin"));
}

} // namespace
} // namespace cairn::corpus::corpora_page_test
