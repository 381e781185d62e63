#include "checkpoints/internal/verify_checkpoint.h"
#include "checkpoints/native/slice_cover.h"
#include "checkpoints/save_slices.h"
#include "support/fuzz.h"
#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <cairn/base/file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace cairn::checkpoints::verify_test {
namespace {

namespace fs = std::filesystem;
using cairn::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ManifestTensor cut(
    std::vector<std::int64_t> shape,
    const std::vector<StoredSlice>& slices) {
  return {.shape = std::move(shape), .slices = slices};
}

TEST(SliceCover, EveryElementIsThereOnce) {
  EXPECT_EQ(fault_of_cover(cut({4}, {{.begin = 0, .end = 4}})), "");
  EXPECT_EQ(
      fault_of_cover(
          cut({4}, {{.begin = 3, .end = 4}, {.begin = 0, .end = 3}})),
      "");
  EXPECT_EQ(fault_of_cover(cut({0}, {})), "");
  EXPECT_EQ(fault_of_cover(cut({}, {{.begin = 0, .end = 1}})), "");
  // The boxes are columns, one of them cut once more.
  const Box left{{0, 0}, {2, 1}};
  const Box right{{0, 1}, {2, 2}};
  EXPECT_EQ(
      fault_of_cover(
          cut({2, 3},
              {{.box = left, .begin = 0, .end = 2},
               {.box = right, .begin = 1, .end = 4},
               {.box = right, .begin = 0, .end = 1}})),
      "");
}

TEST(SliceCover, NamesGapsAndOverlaps) {
  EXPECT_EQ(
      fault_of_cover(
          cut({9}, {{.begin = 0, .end = 3}, {.begin = 5, .end = 9}})),
      "elements 3 to 5 are missing");
  EXPECT_EQ(
      fault_of_cover(cut({9}, {{.begin = 0, .end = 3}})),
      "elements 3 to 9 are missing");
  EXPECT_EQ(
      fault_of_cover(
          cut({9}, {{.begin = 0, .end = 5}, {.begin = 3, .end = 9}})),
      "elements 3 to 5 are there twice");
  EXPECT_EQ(fault_of_cover(cut({9}, {})), "9 of 9 elements are missing");
  const Box left{{0, 0}, {2, 1}};
  EXPECT_EQ(
      fault_of_cover(cut({2, 3}, {{.box = left, .begin = 0, .end = 2}})),
      "4 of 6 elements are missing");
  EXPECT_EQ(
      fault_of_cover(cut({2, 3}, {{.box = left, .begin = 1, .end = 2}})),
      "elements 0 to 1 in the box of [2, 1] at [0, 0] are missing");
  EXPECT_EQ(
      fault_of_cover(
          cut({2, 3},
              {{.box = left, .begin = 0, .end = 2}, {.begin = 0, .end = 6}})),
      "the boxes at [0, 0] and [0, 0] overlap");
}

class VerifyCheckpoint : public ::testing::Test {
 protected:
  VerifyCheckpoint() {
    // The tensor has more than one block of checksums, and a slice that is not
    // whole.
    const at::Tensor large = at::arange(700'000, at::kFloat);
    const auto part = [&](std::int64_t begin, std::int64_t end) {
      return TensorSlice{
          .name = "weight/large",
          .shape = {700, 1000},
          .begin = begin,
          .values = large.slice(0, begin, end)};
    };
    save(
        folder.path(),
        "tag",
        {{{whole("weight/small", at::ones({3})), part(0, 300'000)}},
         {{part(300'000, 700'000)}}},
        7);
  }

  std::vector<std::string> faults() const {
    return verify_native(place).faults;
  }
  void alter(const std::string& file, std::int64_t at, char value) const {
    std::fstream stream(
        place / file,
        std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(at, at < 0 ? std::ios::end : std::ios::beg);
    stream.put(value);
  }
  /// Replaces a text in the manifest, which becomes one of version 1: that has
  /// no checksum over itself.
  void edit_manifest(const std::string& from, const std::string& to) const {
    std::string text = read_file(place / manifest_name, 1 << 20);
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << text;
    text.replace(at, from.size(), to);
    text.replace(text.find("\"version\": 2"), 12, "\"version\": 1");
    write_file_atomically(place / manifest_name, text);
  }

  TemporaryFolder folder;
  fs::path place = folder / "tag";
};

TEST_F(VerifyCheckpoint, ReadsAllOfIt) {
  std::uint64_t told = 0;
  const VerifyReport report =
      verify_native(place, [&](std::uint64_t bytes) { told += bytes; });
  EXPECT_THAT(report.faults, IsEmpty());
  EXPECT_EQ(report.step, 7);
  EXPECT_EQ(report.files, 2);
  EXPECT_EQ(report.tensors, 2);
  EXPECT_EQ(report.bytes, 4 * 700'003);
  EXPECT_EQ(told, report.bytes);
  EXPECT_THAT(report.doubts, IsEmpty());
  EXPECT_TRUE(report.manifest_checked);
}

TEST_F(VerifyCheckpoint, DoubtsCountsThatNoChecksumCovers) {
  edit_manifest("\"tag\": \"tag\"", "\"tag\": \"global_step5\"");
  const VerifyReport report = verify_native(place);
  EXPECT_THAT(report.faults, IsEmpty()) << "a run may choose such a tag";
  EXPECT_THAT(
      report.doubts,
      ElementsAre(HasSubstr("the tag is global_step5, the step 7")));
  EXPECT_FALSE(report.manifest_checked);
}

TEST_F(VerifyCheckpoint, SeesAnAlteredManifest) {
  std::string text = read_file(place / manifest_name, 1 << 20);
  text.replace(text.find("\"step\": 7"), 9, "\"step\": 5");
  write_file_atomically(place / manifest_name, text);
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("the manifest was altered")));
}

TEST_F(VerifyCheckpoint, NamesTheBytesThatWereAltered) {
  alter("rank-1.safetensors", -1, 'x');
  alter("rank-0.safetensors", -1, 'x');
  EXPECT_THAT(
      faults(),
      ElementsAre(
          AllOf(
              HasSubstr("rank-0.safetensors: bytes "),
              HasSubstr("weight/large")),
          HasSubstr("rank-1.safetensors: bytes ")));
}

TEST_F(VerifyCheckpoint, SeesAnAlteredByteOfTheHeader) {
  alter("rank-0.safetensors", 4000, '\0'); // one of the blanks at its end
  EXPECT_THAT(
      faults(),
      ElementsAre(HasSubstr("rank-0.safetensors: the header was altered")));
}

TEST_F(VerifyCheckpoint, NamesFilesThatAreMissingCutOffOrStrange) {
  fs::remove(place / "rank-0.safetensors");
  fs::resize_file(place / "rank-1.safetensors", 5000);
  std::ofstream(place / "notes.txt") << "mine";
  EXPECT_THAT(
      faults(),
      ElementsAre(
          HasSubstr("rank-0.safetensors: the file is missing"),
          HasSubstr("rank-1.safetensors: 5000 bytes"),
          HasSubstr("notes.txt: does not belong")));
}

TEST_F(VerifyCheckpoint, HoldsHeadersAgainstTheManifest) {
  edit_manifest("\"weight/small\"", "\"weight/other\"");
  EXPECT_THAT(
      faults(),
      ElementsAre(
          HasSubstr("the manifest has \"weight/other\", the file has not"),
          HasSubstr("the file has \"weight/small\", the manifest has not")));
}

TEST_F(VerifyCheckpoint, SeesElementsThatNobodySaved) {
  edit_manifest("\"shape\":[700,1000]", "\"shape\":[701,1000]");
  EXPECT_THAT(
      faults(),
      ElementsAre(HasSubstr("elements 700000 to 701000 are missing")));
}

TEST_F(VerifyCheckpoint, SeesTiesToNothing) {
  edit_manifest("\"ties\": []", "\"ties\": [[\"head\",\"lost\"]]");
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("tied to lost")));
}

TEST_F(VerifyCheckpoint, BearsAnyManifest) {
  const fs::path path = place / manifest_name;
  const std::string good = read_file(path, 1 << 20);
  // Verifying finds faults or none, but never throws.
  testing::fuzz(
      {.seeds = {good},
       .pieces = {"-1", "99999999999", "[]", "{}", "null", "\"box\":"},
       .runs = 300},
      [&](const std::string& damaged) {
        std::ofstream(path, std::ios::binary) << damaged;
        EXPECT_NO_THROW(faults());
      });
}

} // namespace
} // namespace cairn::checkpoints::verify_test
