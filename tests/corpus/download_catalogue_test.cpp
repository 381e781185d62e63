#include "corpus/internal/download_catalogue.h"
#include "corpus/internal/download.h"

#include <cairn/base/error.h>

#include "corpus/internal/web_address.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace cairn::corpus::download_catalogue_test {
namespace {

TEST(DownloadCatalogue, IsWellFormed) {
  std::set<std::string> names;
  std::set<std::string> paths;
  for (const auto& entry : download_catalogue("en")) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_FALSE(entry.files.empty());
    for (const auto& file : entry.files) {
      EXPECT_TRUE(paths.insert(entry.folder + "/" + file.name).second);
      EXPECT_FALSE(file.addresses.empty());
      for (const auto& address : file.addresses) {
        EXPECT_NO_THROW(check_address(address));
        EXPECT_TRUE(address.starts_with("https://")) << address;
      }
      if (!file.sha256.empty()) {
        EXPECT_EQ(sha256_checksum(file.sha256).hex, file.sha256);
      }
    }
  }
}

TEST(DownloadCatalogue, HasWikipediaInEveryLanguage) {
  for (const auto& entry : download_catalogue("zh-min-nan")) {
    if (entry.name == "wikipedia") {
      EXPECT_EQ(
          entry.files.at(0).addresses.at(0),
          "https://dumps.wikimedia.org/zh_min_nanwiki/latest/"
          "zh_min_nanwiki-latest-pages-articles.xml.bz2");
    }
  }
  for (const char* code : {"", "-", "en/..", "EN", "e n"}) {
    EXPECT_THROW(download_catalogue(code), ConfigError) << code;
  }
}

TEST(ListedSum, IsThatOfTheOnlyName) {
  const std::string one(40, 'a');
  const std::string two(40, 'b');
  const std::string list = one +
      "  dewiki-20260101-pages-articles.xml.bz2\r\n" + two +
      "  dewiki-20260101-pages-articles-multistream.xml.bz2\nnonsense\n" +
      "short  x-pages-articles.xml.bz2";
  EXPECT_EQ(listed_sum(list, "-pages-articles.xml.bz2"), one);
  EXPECT_EQ(listed_sum(list, "-pages-articles-multistream.xml.bz2"), two);
  EXPECT_EQ(listed_sum(list, ".bz2"), std::nullopt); // which of them?
  EXPECT_EQ(listed_sum(list, ".gz"), std::nullopt);
  EXPECT_EQ(listed_sum("", ".gz"), std::nullopt);
}

} // namespace
} // namespace cairn::corpus::download_catalogue_test
