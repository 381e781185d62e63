#include <cairn/base/error.h>
#include <cairn/data/indexed_dataset.h>
#include <cairn/data/indexed_writer.h>

#include "data/golden_indexed.h"
#include "support/fuzz.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace cairn::data::indexed_dataset_test {
namespace {

using cairn::testing::TemporaryFolder;
using fixtures::all_documents;
using fixtures::Documents;
using fixtures::golden_indexed;
using fixtures::slurp;
using ::testing::HasSubstr;

/// Opens a pair of files with this content.
IndexedDataset open_pair(
    const TemporaryFolder& folder,
    std::string_view index,
    std::string_view tokens) {
  folder.write("d.idx", index);
  folder.write("d.bin", tokens);
  return IndexedDataset(folder / "d");
}

std::string refusal(
    const TemporaryFolder& folder,
    std::string_view index,
    std::string_view tokens) {
  try {
    open_pair(folder, index, tokens);
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

template <typename T>
std::string with_value(std::string text, std::size_t offset, T value) {
  std::memcpy(text.data() + offset, &value, sizeof value);
  return text;
}

class MmapGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(MmapGolden, ReadsWhatMegatronReads) {
  const auto expected =
      nlohmann::json::parse(slurp(golden_indexed(GetParam() + ".json")));
  const IndexedDataset dataset(golden_indexed(GetParam()));
  EXPECT_EQ(dataset.format(), IndexFormat::mmap);
  EXPECT_EQ(name_of(dataset.type()), expected["dtype"].get<std::string>());
  EXPECT_FALSE(dataset.multimodal());
  const auto lengths = expected["sequence_lengths"].get<std::vector<size_t>>();
  ASSERT_EQ(dataset.sequence_count(), lengths.size());
  std::uint64_t tokens = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    EXPECT_EQ(dataset.length(i), lengths[i]);
    tokens += lengths[i];
  }
  EXPECT_EQ(dataset.token_count(), tokens);
  const auto indices =
      expected["document_indices"].get<std::vector<std::int64_t>>();
  ASSERT_EQ(dataset.document_indices().size(), indices.size());
  EXPECT_EQ(dataset.document_count() + 1, indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    EXPECT_EQ(dataset.document_indices()[i], indices[i]);
  }
  EXPECT_EQ(all_documents(dataset), expected["documents"].get<Documents>());
}

INSTANTIATE_TEST_SUITE_P(
    Indexed,
    MmapGolden,
    ::testing::Values(
        "mlm_gpt2_eod_text_document",
        "mlm_gpt2_noeod_text_document",
        "mlm_gpt2_keys_text_document",
        "mlm_gpt2_keys_title_document",
        "mlm_gpt2_part_text_document",
        "mlm_null_int32_text_document",
        "mlm_bert_split_text_sentence",
        "mlm_bert_split_nospecial_text_sentence",
        "mds_gpt2_noeod_mmap_text_document",
        "mds_bert_split_mmap_text_sentence",
        "old_mmap_uint16",
        "old_mmap_int32",
        "old_mmap_int64"),
    [](const auto& info) { return info.param; });

TEST(IndexedDataset, ReadsTheClassicFormat) {
  const auto expected =
      nlohmann::json::parse(slurp(golden_indexed("old_documents.json")));
  for (const char* name : {"old_int32", "old_int64"}) {
    const IndexedDataset dataset(golden_indexed(name));
    EXPECT_EQ(dataset.format(), IndexFormat::classic);
    EXPECT_EQ("old_" + std::string(name_of(dataset.type())), name);
    EXPECT_EQ(all_documents(dataset), expected.get<Documents>());
  }
}

TEST(IndexedDataset, ReadsPartsAndRefusesMoreThanThereIs) {
  const IndexedDataset dataset(golden_indexed("old_mmap_uint16"));
  std::array<std::int32_t, 3> ids{};
  dataset.read(0, 10, ids);
  EXPECT_THAT(ids, ::testing::ElementsAre(2039, 2153, 1012));
  EXPECT_THROW(dataset.read(0, 11, ids), InternalError);
  EXPECT_THROW(
      dataset.read(0, static_cast<std::size_t>(-1), ids),
      InternalError);
  EXPECT_THROW(dataset.length(dataset.sequence_count()), InternalError);
  EXPECT_EQ(dataset.bytes(0).size(), 26U);
  EXPECT_EQ(dataset.bytes(1).data(), dataset.bytes(0).data() + 26);
}

TEST(IndexedDataset, RefusesTheEodIndexOfMegatronDeepSpeed) {
  for (const char* name :
       {"mds_gpt2_eod_mmap_text_document", "mds_null_int32_text_document"}) {
    try {
      IndexedDataset dataset(golden_indexed(name));
      FAIL() << name;
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("does not describe the .bin"));
      EXPECT_THAT(error.what(), HasSubstr("--append-eod"));
    }
  }
}

TEST(IndexedDataset, NamesWhatIsWrong) {
  const TemporaryFolder folder;
  const auto index = slurp(golden_indexed("old_mmap_uint16.idx"));
  const auto tokens = slurp(golden_indexed("old_mmap_uint16.bin"));
  EXPECT_EQ(refusal(folder, index, tokens), "accepted");
  EXPECT_THAT(refusal(folder, "", tokens), HasSubstr("neither MMIDIDX"));
  EXPECT_THAT(
      refusal(folder, index.substr(0, 20), tokens),
      HasSubstr("its header"));
  EXPECT_THAT(
      refusal(folder, index.substr(0, 100), tokens),
      HasSubstr("ends within lengths"));
  EXPECT_THAT(
      refusal(folder, index.substr(0, index.size() - 1), tokens),
      HasSubstr("ends within documents"));
  EXPECT_THAT(refusal(folder, index + "xx", tokens), HasSubstr("longer than"));
  EXPECT_THAT(
      refusal(folder, index, tokens.substr(0, tokens.size() - 2)),
      HasSubstr("sequence 28 lies outside"));
  EXPECT_THAT(
      refusal(folder, index, tokens + "xx"),
      HasSubstr("does not describe"));
  EXPECT_THAT(
      refusal(folder, with_value<std::uint64_t>(index, 9, 2), tokens),
      HasSubstr("unknown version 2"));
  EXPECT_THAT(
      refusal(folder, with_value<std::uint8_t>(index, 17, 9), tokens),
      HasSubstr("code 9"));
  EXPECT_THAT(
      refusal(folder, with_value<std::uint64_t>(index, 18, 1ULL << 62), tokens),
      HasSubstr("ends within lengths"));
  EXPECT_THAT(
      refusal(folder, with_value<std::int32_t>(index, 34, -1), tokens),
      HasSubstr("sequence 0 lies outside"));
  const std::size_t offsets = 34 + 29 * 4;
  EXPECT_THAT(
      refusal(
          folder,
          with_value<std::int64_t>(index, offsets + 8, INT64_MAX),
          tokens),
      HasSubstr("sequence 1 lies outside"));
  const std::size_t documents = offsets + 29 * 8;
  EXPECT_THAT(
      refusal(folder, with_value<std::int64_t>(index, documents, 1), tokens),
      HasSubstr("begin with sequence 0"));
  EXPECT_THAT(
      refusal(
          folder,
          with_value<std::int64_t>(index, documents + 16, 30),
          tokens),
      HasSubstr("not in order"));
  EXPECT_THAT(
      refusal(
          folder,
          with_value<std::int64_t>(index, index.size() - 8, 28),
          tokens),
      HasSubstr("do not end with the last"));
}

TEST(IndexedDataset, NamesWhatIsWrongInTheClassicFormat) {
  const TemporaryFolder folder;
  const auto index = slurp(golden_indexed("old_int32.idx"));
  const auto tokens = slurp(golden_indexed("old_int32.bin"));
  EXPECT_EQ(refusal(folder, index, tokens), "accepted");
  EXPECT_THAT(
      refusal(folder, index.substr(0, 30), tokens),
      HasSubstr("its header"));
  EXPECT_THAT(
      refusal(folder, with_value<std::uint64_t>(index, 24, 8), tokens),
      HasSubstr("the size given is 8"));
  EXPECT_THAT(
      refusal(folder, with_value<std::uint64_t>(index, 40, 28), tokens),
      HasSubstr("more than one dimension"));
  const auto all = static_cast<std::uint64_t>(-1);
  EXPECT_THAT(
      refusal(folder, with_value(with_value(index, 32, all), 40, all), tokens),
      HasSubstr("ends within dimensions"));
  const std::size_t offsets = 56 + 30 * 8;
  EXPECT_THAT(
      refusal(folder, with_value<std::int64_t>(index, offsets + 8, 14), tokens),
      HasSubstr("sequence 0 lies outside"));
  EXPECT_THAT(
      refusal(folder, index, tokens.substr(4)),
      HasSubstr("lies outside"));
  EXPECT_THAT(
      refusal(folder, index, tokens + "xxxx"),
      HasSubstr("does not describe"));
}

TEST(IndexedDataset, OpensFloatsAndModesButReadsNoIdsFromFloats) {
  const TemporaryFolder folder;
  const auto index = slurp(golden_indexed("old_mmap_int32.idx"));
  const auto tokens = slurp(golden_indexed("old_mmap_int32.bin"));
  const auto floats =
      open_pair(folder, with_value<std::uint8_t>(index, 17, 7), tokens);
  EXPECT_EQ(floats.type(), TokenType::float32);
  EXPECT_EQ(floats.token_count(), 739U);
  std::array<std::int64_t, 1> id{};
  EXPECT_THROW(floats.read(0, 0, id), DataError);
  const auto modes = open_pair(folder, index + std::string(29, '\0'), tokens);
  EXPECT_TRUE(modes.multimodal());
  EXPECT_EQ(
      all_documents(modes),
      all_documents(IndexedDataset(golden_indexed("old_mmap_int32"))));
}

TEST(IndexedDataset, RefusesIdsThatDoNotFit) {
  const TemporaryFolder folder;
  const auto index = slurp(golden_indexed("old_mmap_int64.idx"));
  auto tokens = slurp(golden_indexed("old_mmap_int64.bin"));
  tokens = with_value<std::int64_t>(tokens, 0, 1LL << 40);
  const auto dataset = open_pair(folder, index, tokens);
  std::array<std::int64_t, 1> wide{};
  dataset.read(0, 0, wide);
  EXPECT_EQ(wide[0], 1LL << 40);
  std::array<std::int32_t, 1> narrow{};
  EXPECT_THROW(dataset.read(0, 0, narrow), DataError);
}

TEST(IndexedDataset, EverySequenceBeginsWhereTheOneBeforeEnds) {
  const TemporaryFolder folder;
  const auto index = slurp(golden_indexed("old_mmap_uint16.idx"));
  const auto tokens = slurp(golden_indexed("old_mmap_uint16.bin"));
  const std::size_t offsets = 34 + 29 * 4;
  EXPECT_THAT(
      refusal(
          folder,
          with_value<std::int64_t>(index, offsets, 4),
          tokens + "xxxx"),
      HasSubstr(
          "sequence 0 does not begin where the one before ends (byte 4 "));
  EXPECT_THAT(
      refusal(folder, with_value<std::int64_t>(index, offsets + 8, 24), tokens),
      HasSubstr("sequence 1 does not begin where the one before ends (byte 24 "
                "of the .bin file, not 26)"));
}

TEST(IndexedDataset, ChecksFilesOfManySequences) {
  const TemporaryFolder folder;
  constexpr std::size_t count = 10'000;
  std::string index("MMIDIDX\0\0", 9);
  const auto put = [&](auto value) {
    index.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  put(std::uint64_t{1});
  put(std::uint8_t{1}); // uint8
  put(std::uint64_t{count});
  put(std::uint64_t{count + 1});
  for (std::size_t i = 0; i < count; ++i) {
    put(std::int32_t{2});
  }
  const std::size_t offsets = index.size();
  for (std::size_t i = 0; i < count; ++i) {
    put(static_cast<std::int64_t>(2 * i));
  }
  const std::size_t documents = index.size();
  for (std::size_t i = 0; i <= count; ++i) {
    put(static_cast<std::int64_t>(i));
  }
  const std::string tokens(2 * count, 'x');
  EXPECT_EQ(refusal(folder, index, tokens), "accepted");
  EXPECT_THAT(
      refusal(
          folder,
          with_value<std::int64_t>(index, offsets + 8 * 9000, 18'002),
          tokens),
      HasSubstr("sequence 9000 does not begin"));
  EXPECT_THAT(
      refusal(
          folder,
          with_value<std::int64_t>(index, documents + 8 * 9000, 8998),
          tokens),
      HasSubstr("not in order (document 8999)"));
}

TEST(IndexedDataset, MissingFilesAreNamed) {
  const TemporaryFolder folder;
  try {
    IndexedDataset dataset(folder / "none");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("none.idx: cannot open"));
  }
}

/// Opens and reads everything that an index lets one read.
void read_all(const TemporaryFolder& folder, const std::string& index) {
  // Makes a new file each time: file systems flush one that is emptied and
  // written.
  std::filesystem::remove(folder / "d.idx");
  folder.write("d.idx", index);
  const IndexedDataset dataset(folder / "d");
  for (std::size_t i = 0; i < dataset.sequence_count(); ++i) {
    std::uint64_t sum = 0;
    for (const std::byte byte : dataset.bytes(i)) {
      sum += static_cast<std::uint64_t>(byte);
    }
    ASSERT_LE(sum, dataset.bytes(i).size() * 255);
  }
}

TEST(IndexedDataset, FuzzMmap) {
  const TemporaryFolder folder;
  folder.write("d.bin", slurp(golden_indexed("old_mmap_uint16.bin")));
  const int accepted = cairn::testing::fuzz(
      {.seeds = {slurp(golden_indexed("old_mmap_uint16.idx"))},
       .pieces = {std::string(8, '\xff'), std::string(8, '\0')},
       .runs = 2000},
      [&](const std::string& index) { read_all(folder, index); });
  EXPECT_GT(accepted, 0);
}

TEST(IndexedDataset, FuzzClassic) {
  const TemporaryFolder folder;
  folder.write("d.bin", slurp(golden_indexed("old_int32.bin")));
  cairn::testing::fuzz(
      {.seeds = {slurp(golden_indexed("old_int32.idx"))},
       .pieces = {std::string(8, '\xff'), std::string(8, '\0')},
       .runs = 2000},
      [&](const std::string& index) { read_all(folder, index); });
}

} // namespace
} // namespace cairn::data::indexed_dataset_test
