#include <cairn/io/nvme_store.h>

#include "io/setups.h"
#include "support/child_process.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/io/aligned_buffer.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>

namespace cairn::io::nvme_store_test {
namespace {

using cairn::testing::run_in_child;
using cairn::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

AlignedBuffer filled(std::size_t size, int value) {
  AlignedBuffer buffer(size);
  std::memset(buffer.data(), value, size);
  return buffer;
}

bool all_are(const AlignedBuffer& buffer, int value) {
  return std::ranges::all_of(buffer.bytes(), [&](std::byte byte) {
    return byte == static_cast<std::byte>(value);
  });
}

class NvmeStoreTest : public EverySetup {
 protected:
  TemporaryFolder folder_;
};

TEST_P(NvmeStoreTest, KeepsArraysApart) {
  NvmeStore store(folder_.path(), GetParam().config, GetParam().kind);
  store.create("exp_avg", 10'000);
  store.create("exp_avg_sq", 50'000);
  store.create("nothing", 0);
  store.create("block.0.weight/master", 1);
  EXPECT_EQ(store.size("exp_avg"), 10'000U);
  EXPECT_EQ(store.bytes_on_disk(), 12'288U + 53'248U + 4096U);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));

  const auto one = filled(10'000, 1);
  const auto two = filled(50'000, 2);
  PendingTransfer first = store.write("exp_avg", 0, one.bytes());
  PendingTransfer second = store.write("exp_avg_sq", 0, two.bytes());
  first.wait();
  second.wait();
  AlignedBuffer back(10'000);
  store.read("exp_avg", 0, back.bytes()).wait();
  EXPECT_TRUE(all_are(back, 1));
  back = AlignedBuffer(50'000 - 8192);
  store.read("exp_avg_sq", 8192, back.bytes()).wait();
  EXPECT_TRUE(all_are(back, 2));
  back = AlignedBuffer(1);
  store.read("block.0.weight/master", 0, back.bytes()).wait();
  EXPECT_TRUE(all_are(back, 0)) << "new arrays are zero";
}

TEST_P(NvmeStoreTest, GoesOnWithoutItsFolder) {
  NvmeStore store(folder_.path(), GetParam().config, GetParam().kind);
  store.create("before", 8192);
  std::filesystem::remove_all(folder_.path());
  store.create("after", 8192);
  for (const char* name : {"before", "after"}) {
    store.write(name, 0, filled(8192, 5).bytes()).wait();
    AlignedBuffer back(8192);
    store.read(name, 0, back.bytes()).wait();
    EXPECT_TRUE(all_are(back, 5));
  }
}

TEST_P(NvmeStoreTest, SharesAFolder) {
  NvmeStore one(folder_.path(), GetParam().config, GetParam().kind);
  NvmeStore two(folder_.path(), GetParam().config, GetParam().kind);
  one.create("w", 4096);
  two.create("w", 4096);
  one.write("w", 0, filled(4096, 1).bytes()).wait();
  two.write("w", 0, filled(4096, 2).bytes()).wait();
  AlignedBuffer back(4096);
  one.read("w", 0, back.bytes()).wait();
  EXPECT_TRUE(all_are(back, 1));
}

TEST_P(NvmeStoreTest, AKilledProcessLeavesNothing) {
  const int status = run_in_child([&] {
    NvmeStore store(folder_.path(), GetParam().config, GetParam().kind);
    store.create("w", 1 << 20);
    const auto memory = filled(1 << 20, 1);
    const PendingTransfer write = store.write("w", 0, memory.bytes());
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(status, 128 + SIGKILL);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_P(NvmeStoreTest, AFullDiskIsFoundBeforeTraining) {
  const int status = run_in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small { 100'000, 100'000 };
    if (::setrlimit(RLIMIT_FSIZE, &small) != 0) {
      return 2;
    }
    NvmeStore store(folder_.path(), GetParam().config, GetParam().kind);
    store.create("fits", 50'000);
    try {
      store.create("does not", 60'000);
    } catch (const DataError& error) {
      const std::string text = error.what();
      if (text.find(
              (folder_ / "does not").string() +
              ": cannot take room on the disk: File too large (61440 bytes)") !=
          0) {
        return 3;
      }
    }
    // Earlier arrays are as they were, and smaller ones still fit.
    store.create("fits too", 40'000);
    store.write("fits too", 0, filled(40'000, 3).bytes()).wait();
    AlignedBuffer back(50'000);
    store.read("fits", 0, back.bytes()).wait();
    return all_are(back, 0) ? 0 : 4;
  });
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Engines,
    NvmeStoreTest,
    ::testing::ValuesIn(setups),
    setup_name);

TEST(NvmeStore, MisuseIsSaid) {
  const TemporaryFolder folder;
  NvmeStore store(folder.path());
  store.create("w", 100);
  AlignedBuffer memory(200);
  EXPECT_THAT(
      [&] { store.create("w", 1); },
      ThrowsMessage<InternalError>(
          HasSubstr("there is an array \"w\" already")));
  EXPECT_THAT(
      [&] { store.read("v", 0, memory.bytes()).wait(); },
      ThrowsMessage<InternalError>(HasSubstr("there is no array \"v\"")));
  EXPECT_THAT(
      [&] { store.read("w", 0, memory.bytes()).wait(); },
      ThrowsMessage<InternalError>(AllOf(
          StartsWith((folder / "w").string()),
          HasSubstr("200 bytes at offset 0 of 100"))));
}

TEST(NvmeStore, NeedsAFolder) {
  EXPECT_THAT(
      [] { NvmeStore("/no/such/folder"); },
      ThrowsMessage<DataError>(StartsWith("/no/such/folder: cannot make a")));
}

} // namespace
} // namespace cairn::io::nvme_store_test
