#include <cairn/base/error.h>
#include <cairn/data/indexed_writer.h>

#include "data/golden_indexed.h"
#include "support/child_process.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace cairn::data::indexed_writer_test {
namespace {

using cairn::testing::TemporaryFolder;
using fixtures::golden_indexed;
using fixtures::slurp;
using ::testing::HasSubstr;

std::size_t files_in(const TemporaryFolder& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(folder.path())) {
    ++count;
  }
  return count;
}

struct Kind {
  std::string name;
  IndexedWriter::Options options;
};

class WriterGolden : public ::testing::TestWithParam<Kind> {};

TEST_P(WriterGolden, WritesWhatMegatronWrites) {
  const TemporaryFolder folder;
  const auto documents =
      nlohmann::json::parse(slurp(golden_indexed("old_documents.json")));
  IndexedWriter writer(folder / "d", GetParam().options);
  SequenceBlock block;
  IndexedWriter blocks(folder / "b", GetParam().options);
  for (const auto& document : documents) {
    for (const auto& sequence : document) {
      const auto ids = sequence.get<std::vector<std::int32_t>>();
      writer.add_sequence(ids);
      block.add_sequence(blocks.type(), ids);
    }
    writer.end_document();
    block.end_document();
    if (block.document_ends.size() == 3) {
      blocks.append(block);
      block.clear();
    }
  }
  blocks.append(block);
  EXPECT_FALSE(std::filesystem::exists(folder / "d.bin"));
  EXPECT_FALSE(std::filesystem::exists(folder / "d.idx"));
  writer.commit();
  blocks.commit();
  EXPECT_EQ(writer.document_count(), 20U);
  EXPECT_EQ(writer.sequence_count(), 29U);
  EXPECT_EQ(writer.token_count(), 739U);
  EXPECT_EQ(blocks.token_count(), 739U);
  const auto& name = GetParam().name;
  for (const char* which : {"d", "b"}) {
    EXPECT_EQ(
        slurp(folder / (which + std::string(".bin"))),
        slurp(golden_indexed(name + ".bin")));
    EXPECT_EQ(
        slurp(folder / (which + std::string(".idx"))),
        slurp(golden_indexed(name + ".idx")));
  }
  EXPECT_EQ(files_in(folder), 4U);
}

INSTANTIATE_TEST_SUITE_P(
    Indexed,
    WriterGolden,
    ::testing::Values(
        Kind{"old_int32", {IndexFormat::classic, TokenType::int32}},
        Kind{"old_int64", {IndexFormat::classic, TokenType::int64}},
        Kind{"old_mmap_uint16", {IndexFormat::mmap, TokenType::uint16}},
        Kind{"old_mmap_int32", {IndexFormat::mmap, TokenType::int32}},
        Kind{"old_mmap_int64", {IndexFormat::mmap, TokenType::int64}}),
    [](const auto& info) { return info.param.name; });

TEST(IndexedWriter, WritesAnEmptyPairThatOpens) {
  const TemporaryFolder folder;
  for (const auto format : {IndexFormat::mmap, IndexFormat::classic}) {
    IndexedWriter writer(folder / "d", {.format = format});
    writer.end_document();
    writer.commit();
    const IndexedDataset dataset(folder / "d");
    EXPECT_EQ(dataset.format(), format);
    EXPECT_EQ(dataset.document_count(), 1U);
    EXPECT_EQ(dataset.sequence_count(), 0U);
    EXPECT_EQ(dataset.token_count(), 0U);
  }
}

TEST(IndexedWriter, LeavesNothingWithoutCommit) {
  const TemporaryFolder folder;
  {
    IndexedWriter writer(folder / "d", {});
    writer.add_sequence(std::vector<std::int32_t>{1, 2, 3});
    writer.end_document();
    writer.finish();
    EXPECT_EQ(files_in(folder), 2U);
  }
  EXPECT_EQ(files_in(folder), 0U);
}

TEST(IndexedWriter, KeepsTheOldPairUntilCommit) {
  const TemporaryFolder folder;
  const auto write = [&](std::int32_t id) {
    IndexedWriter writer(folder / "d", {});
    writer.add_sequence(std::vector<std::int32_t>{id});
    writer.end_document();
    return writer;
  };
  write(1).commit();
  const auto old = slurp(folder / "d.bin");
  write(2);
  EXPECT_EQ(slurp(folder / "d.bin"), old);
  write(2).commit();
  EXPECT_NE(slurp(folder / "d.bin"), old);
}

TEST(IndexedWriter, RefusesIdsThatDoNotFit) {
  const TemporaryFolder folder;
  IndexedWriter writer(folder / "d", {.type = TokenType::uint16});
  writer.add_sequence(std::vector<std::int32_t>{0, 65535});
  EXPECT_THROW(
      writer.add_sequence(std::vector<std::int32_t>{65536}),
      DataError);
  EXPECT_THROW(writer.add_sequence(std::vector<std::int32_t>{-1}), DataError);
}

TEST(IndexedWriter, TwoWritersOfOnePairAreKeptApart) {
  const TemporaryFolder folder;
  IndexedWriter first(folder / "d", {});
  try {
    IndexedWriter second(folder / "d", {});
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("another program is writing"));
  }
  first.commit();
  EXPECT_EQ(files_in(folder), 2U);
}

TEST(IndexedWriter, BeginsAnewWhereAKilledOneStopped) {
  const TemporaryFolder folder;
  const int status = cairn::testing::run_in_child([&] {
    IndexedWriter writer(folder / "d", {});
    writer.add_sequence(std::vector<std::int32_t>(1'000'000, 7));
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(status, 128 + SIGKILL);
  EXPECT_FALSE(std::filesystem::exists(folder / "d.bin"));
  EXPECT_FALSE(std::filesystem::exists(folder / "d.idx"));
  EXPECT_GT(std::filesystem::file_size(folder / "d.bin.partial"), 0U);
  IndexedWriter writer(folder / "d", {});
  writer.add_sequence(std::vector<std::int32_t>{5});
  writer.end_document();
  writer.commit();
  EXPECT_EQ(IndexedDataset(folder / "d").token_count(), 1U);
  EXPECT_EQ(files_in(folder), 2U);
}

TEST(IndexedWriter, AFullDiskIsAnErrorAndLeavesNothing) {
  const TemporaryFolder folder;
  const int status = cairn::testing::run_in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      IndexedWriter writer(folder / "d", {});
      for (int i = 0; i < 100; ++i) {
        writer.add_sequence(std::vector<std::int32_t>(100'000, 7));
        writer.end_document();
      }
      writer.commit();
    } catch (const DataError& error) {
      return std::string(error.what()).find("d.bin.partial: cannot write") !=
              std::string::npos
          ? 3
          : 4;
    }
    return 0;
  });
  EXPECT_EQ(status, 3);
  EXPECT_EQ(files_in(folder), 0U);
}

TEST(IndexedWriter, ACommitThatFailsLeavesNoneOfItsPairs) {
  const TemporaryFolder folder;
  {
    std::vector<IndexedWriter> writers;
    writers.emplace_back(folder / "a", IndexedWriter::Options{});
    writers.emplace_back(folder / "b", IndexedWriter::Options{});
    std::filesystem::create_directory(folder / "b.bin");
    EXPECT_THROW(IndexedWriter::commit(writers), DataError);
  }
  EXPECT_EQ(files_in(folder), 1U); // that folder
}

TEST(IndexedWriter, RefusesToReplaceWhatIsNoFile) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "d.bin");
  EXPECT_THROW(IndexedWriter(folder / "d", {}), DataError);
  EXPECT_THROW(IndexedWriter(folder / "no/such/d", {}), DataError);
}

} // namespace
} // namespace cairn::data::indexed_writer_test
