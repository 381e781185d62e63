// `cairn data urls`: the lists of addresses that the OpenWebText recipe begins
// with.

#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::corpus::url_lists_test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::Result;
using testing::run;

const std::string cairn = CAIRN_BINARY_DIR "/bin/cairn";

TEST(UrlLists, EveryReason) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "lists");
  folder.write(
      "lists/RS_2.txt",
      "https://b.org/2\r\n"
      "http://a.org/1\n"
      "https://blog.example.com/x\n"
      "\n"
      "  https://c.org/3  \n");
  folder.write(
      "lists/RS_1.txt",
      "http://a.org/1\n"
      "https://www.flickr.com/photos/1\n"
      "https://a.org/movie.MP4?x=1\n"
      "http://x\n"
      "this is no address\n"
      "https://b.org/2"); // without a line end
  folder.write("lists/README", "https://d.org/4\n");
  const auto domains = folder.write("domains.txt", "example # and others\n");
  const std::string output = folder / "clean_urls.txt";
  const Result result = run(
      {cairn,
       "data",
       "urls",
       folder / "lists",
       "--output",
       output,
       "--domain-blacklist",
       domains});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(
      testing::read_text(output),
      "http://a.org/1\nhttps://b.org/2\nhttps://c.org/3\n");
  EXPECT_THAT(
      result.out,
      AllOf(
          ContainsRegex("read +10 "),
          ContainsRegex("- blocked domain +2 "),
          ContainsRegex("- blocked file ending +1 "),
          ContainsRegex("- 8 characters or fewer +1 "),
          ContainsRegex("- malformed +1 "),
          ContainsRegex("- there before +2 "),
          ContainsRegex("kept +3 ")));

  std::filesystem::create_directory(folder / "empty");
  const Result empty =
      run({cairn, "data", "urls", folder / "empty", "--output", "-"});
  EXPECT_EQ(empty.code, 1);
  EXPECT_THAT(empty.err, HasSubstr("there is no .txt file in the folder"));
}

} // namespace
} // namespace cairn::corpus::url_lists_test
