#include "corpus/internal/unpack_archive.h"

#include <cairn/base/error.h>

#include "corpus/handmade_archive.h"
#include "support/command.h"
#include "support/fuzz.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace cairn::corpus::unpack_archive_test {
namespace {

using testing::gzipped;
using ::testing::HasSubstr;
using testing::read_text;
using testing::tar_end;
using testing::tar_member;
using testing::TemporaryFolder;
using testing::zip;

class Unpack : public ::testing::Test {
 protected:
  std::vector<std::filesystem::path> unpack(
      const std::string& archive,
      const UnpackLimits& limits = {}) {
    return unpack_archive(folder.write("archive", archive), out, limits);
  }

  std::string refusal(
      const std::string& archive,
      const UnpackLimits& limits = {}) {
    try {
      unpack(archive, limits);
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr((folder / "archive").string()));
      return error.what();
    }
    ADD_FAILURE() << "was unpacked";
    return {};
  }

  TemporaryFolder folder;
  std::filesystem::path out = folder / "out";
};

TEST_F(Unpack, ATarThatIsCompressed) {
  const std::string picture(3073, 'p');
  const auto files = unpack(gzipped(
      tar_member("cifar-10-batches-bin/", "", '5') +
      tar_member("cifar-10-batches-bin/data_batch_1.bin", picture) +
      tar_member("cifar-10-batches-bin/empty", "", '\0') + tar_end));
  EXPECT_EQ(files.size(), 2U);
  EXPECT_EQ(read_text(out / "cifar-10-batches-bin/data_batch_1.bin"), picture);
  EXPECT_TRUE(std::filesystem::exists(out / "cifar-10-batches-bin/empty"));
}

TEST_F(Unpack, LongNamesInATar) {
  const std::string gnu = std::string(150, 'g') + "/file";
  const std::string pax = std::string(150, 'x') + "/file";
  // 3 digits, a space, "path=", the name and a newline
  const auto record = fmt::format("{} path={}\n", 10 + pax.size(), pax);
  ASSERT_EQ(record.size(), 10 + pax.size());
  unpack(
      tar_member("././@LongLink", gnu + '\0', 'L') + tar_member("g", "1") +
      tar_member("comments", "20 comment=anything\n", 'g') +
      tar_member("PaxHeaders/x", record, 'x') + tar_member("x", "2") + tar_end);
  EXPECT_EQ(read_text(out / gnu), "1");
  EXPECT_EQ(read_text(out / pax), "2");
}

TEST_F(Unpack, AZip) {
  const std::string text = std::string(500'000, 'a') + "the end";
  const auto files = unpack(zip(
      {{.name = "wikitext-2/", .body = "", .method = 0},
       {.name = "wikitext-2/wiki.train.tokens", .body = text},
       {.name = "wikitext-2/stored", .body = text, .method = 0},
       {.name = "large", .body = "64 bits", .zip64 = true}}));
  EXPECT_EQ(files.size(), 3U);
  EXPECT_EQ(read_text(out / "wikitext-2/wiki.train.tokens"), text);
  EXPECT_EQ(read_text(out / "wikitext-2/stored"), text);
  EXPECT_EQ(read_text(out / "large"), "64 bits");
}

TEST_F(Unpack, AnEmptyZip) {
  EXPECT_TRUE(unpack(zip({})).empty());
}

TEST_F(Unpack, NamesThatLeadOutside) {
  for (const std::string name :
       {"../evil", "/evil", "a/../../evil", "..", "a\\..\\evil", "."}) {
    EXPECT_THAT(refusal(tar_member(name, "x") + tar_end), HasSubstr("name"))
        << name;
    EXPECT_THAT(refusal(zip({{.name = name, .body = "x"}})), HasSubstr("name"))
        << name;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "evil"));
  EXPECT_FALSE(std::filesystem::exists("/evil"));
}

TEST_F(Unpack, LinksAndDevices) {
  for (const char kind : {'1', '2', '3', '4', '6'}) {
    EXPECT_THAT(
        refusal(tar_member("x", "", kind) + tar_end),
        HasSubstr("link"));
  }
  EXPECT_THAT(
      refusal(zip({{.name = "x", .body = "/etc", .mode = 0120777}})),
      HasSubstr("link"));
}

TEST_F(Unpack, WhatIsBroken) {
  const auto tar = tar_member("x", std::string(1000, 'x')) + tar_end;
  EXPECT_THAT(refusal(tar.substr(0, 700)), HasSubstr("cut off"));
  EXPECT_THAT(refusal(tar.substr(0, 1536)), HasSubstr("end mark"));
  EXPECT_THAT(refusal("hello"), HasSubstr("cut off"));
  auto wrong = tar;
  wrong[0] = 'y';
  EXPECT_THAT(refusal(wrong), HasSubstr("no tar archive"));

  const auto whole = zip({{.name = "z", .body = "hello", .method = 0}});
  EXPECT_THAT(refusal(whole.substr(0, 60)), HasSubstr("no zip archive"));
  wrong = whole;
  wrong[31] = 'j'; // the first byte of "hello"
  EXPECT_THAT(refusal(wrong), HasSubstr("checksum is wrong"));
  EXPECT_FALSE(std::filesystem::exists(out / "z"));
  EXPECT_THAT(
      refusal(zip({{.name = "z", .body = "hello", .flags = 1}})),
      HasSubstr("encrypted"));
  EXPECT_THAT(
      refusal(zip({{.name = "z", .body = "hello", .method = 12}})),
      HasSubstr("method 12"));
}

TEST_F(Unpack, ABombIsStopped) {
  const std::string zeros(1 << 20, '\0');
  const UnpackLimits few{.bytes = 1000, .files = 2};
  EXPECT_THAT(
      refusal(zip({{.name = "x", .body = zeros}}), few),
      HasSubstr("more than 1000 bytes"));
  EXPECT_THAT(
      refusal(gzipped(tar_member("x", zeros) + tar_end), few),
      HasSubstr("more than 1000 bytes"));
  EXPECT_THAT(
      refusal(zip({{"a", "1"}, {"b", "2"}, {"c", "3"}}), few),
      HasSubstr("more than 2 files"));
  EXPECT_FALSE(std::filesystem::exists(out / "x"));
}

TEST_F(Unpack, FuzzedTar) {
  const UnpackLimits limits{.bytes = 1 << 16, .files = 16};
  const int accepted = testing::fuzz(
      {.seeds =
           {tar_member("a/b", std::string(600, 'b')) + tar_end,
            tar_member("L", "name\0", 'L') + tar_member("x", "1") + tar_end,
            tar_member("p", "11 path=ab\n", 'x') + tar_member("x", "1") +
                tar_end},
       .pieces = {"../", "ustar", "path=", "size=", "00000000017"},
       .runs = 150},
      [&](const std::string& archive) { unpack(archive, limits); });
  EXPECT_GT(accepted, 0);
}

TEST_F(Unpack, FuzzedZip) {
  const UnpackLimits limits{.bytes = 1 << 16, .files = 16};
  const int accepted = testing::fuzz(
      {.seeds =
           {zip({{"a/b", std::string(600, 'b')}, {"c", "hello", 0}}),
            zip({{.name = "l", .body = "64 bits", .zip64 = true}})},
       .pieces = {"PK\1\2", "PK\3\4", "PK\5\6", "PK\6\6", "PK\6\7", "\xff\xff"},
       .runs = 150},
      [&](const std::string& archive) {
        unpack(
            "PK\3\4" + archive.substr(std::min<std::size_t>(4, archive.size())),
            limits);
      });
  EXPECT_GT(accepted, 0);
}

} // namespace
} // namespace cairn::corpus::unpack_archive_test
