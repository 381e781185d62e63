#include <cairn/io/io_queue.h>

#include "io/setups.h"
#include "support/child_process.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/io/aligned_buffer.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace cairn::io::io_queue_test {
namespace {

using cairn::testing::run_in_child;
using cairn::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

constexpr std::uint64_t limit = 1 << 30;

std::byte expected(std::uint64_t place, unsigned salt) {
  return static_cast<std::byte>((place * 2654435761U + salt * 40503U) >> 11);
}

void fill(std::span<std::byte> bytes, std::uint64_t place, unsigned salt = 0) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = expected(place + i, salt);
  }
}

::testing::AssertionResult is_filled(
    std::span<const std::byte> bytes,
    std::uint64_t place,
    unsigned salt = 0) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != expected(place + i, salt)) {
      return ::testing::AssertionFailure() << "other byte at " << i;
    }
  }
  return ::testing::AssertionSuccess();
}

class IoQueueTest : public EverySetup {
 protected:
  TemporaryFolder folder_;
};

TEST_P(IoQueueTest, WritesAndReadsAnyPlace) {
  IoQueue queue(GetParam().config, GetParam().kind);
  EXPECT_EQ(queue.engine(), GetParam().kind);
  const AlignedBuffer memory(200'000);
  const AlignedBuffer other(200'000);
  int number = 0;
  for (const std::size_t size : {1, 4095, 4096, 4097, 65536, 150'001}) {
    for (const std::size_t offset : {0, 4096, 17}) {
      for (const std::size_t shift : {0, 17, 64}) {
        const auto path = folder_ / std::to_string(number++);
        AsyncFile file = AsyncFile::create(path);
        const auto from = memory.bytes().subspan(shift, size);
        fill(from, offset);
        queue.write(file, offset, from).wait();
        EXPECT_EQ(std::filesystem::file_size(path), offset + size);
        const std::string text = read_file(path, limit);
        EXPECT_TRUE(
            is_filled(std::as_bytes(std::span(text)).subspan(offset), offset));
        const auto into = other.bytes().subspan((shift * 3) % 4096, size);
        queue.read(AsyncFile::open_for_reading(path), offset, into).wait();
        EXPECT_TRUE(is_filled(into, offset));
      }
    }
  }
}

TEST_P(IoQueueTest, ManyAreInFlight) {
  IoQueue queue(GetParam().config, GetParam().kind);
  AsyncFile file = AsyncFile::create(folder_ / "file");
  constexpr std::size_t count = 300;
  constexpr std::size_t size = 3 * 4096;
  const AlignedBuffer memory(count * size);
  fill(memory.bytes(), 0);
  std::vector<PendingTransfer> writes;
  for (std::size_t i = 0; i < count; ++i) {
    writes.push_back(
        queue.write(file, i * size, memory.bytes().subspan(i * size, size)));
  }
  for (PendingTransfer& write : writes) {
    write.wait();
    EXPECT_TRUE(write.done());
  }
  std::memset(memory.data(), 0, memory.size());
  std::vector<PendingTransfer> reads;
  for (std::size_t i = count; i-- > 0;) {
    reads.push_back(
        queue.read(file, i * size, memory.bytes().subspan(i * size, size)));
  }
  // Waits from any thread, in any order.
  std::thread([&] {
    for (PendingTransfer& read : reads) {
      read.wait();
    }
  }).join();
  EXPECT_TRUE(is_filled(memory.bytes(), 0));
}

TEST_P(IoQueueTest, DirectAndBufferedPartsOfAFileAgree) {
  IoQueue queue(GetParam().config, GetParam().kind);
  AsyncFile file = AsyncFile::create_unnamed(folder_.path());
  const AlignedBuffer memory(40'000);
  fill(memory.bytes(), 0);
  queue.write(file, 0, memory.bytes()).wait();
  // Writes over the edge of a block, from unaligned memory; then whole blocks
  // over that; then reads back both ways.
  fill(memory.bytes().subspan(1, 5000), 4000, 1);
  queue.write(file, 4000, memory.bytes().subspan(1, 5000)).wait();
  fill(memory.bytes().first(4096), 4096, 2);
  queue.write(file, 4096, memory.bytes().first(4096)).wait();
  for (const std::size_t shift : {0, 1}) {
    const AlignedBuffer into(40'001);
    const auto read = into.bytes().subspan(shift, 40'000);
    queue.read(file, 0, read).wait();
    EXPECT_TRUE(is_filled(read.first(4000), 0));
    EXPECT_TRUE(is_filled(read.subspan(4000, 96), 4000, 1));
    EXPECT_TRUE(is_filled(read.subspan(4096, 4096), 4096, 2));
    EXPECT_TRUE(is_filled(read.subspan(8192, 808), 8192, 1));
    EXPECT_TRUE(is_filled(read.subspan(9000), 9000));
  }
}

TEST_P(IoQueueTest, NothingIsDoneAtOnce) {
  IoQueue queue(GetParam().config, GetParam().kind);
  AsyncFile file = AsyncFile::create(folder_ / "file");
  PendingTransfer nothing = queue.read(file, 0, {});
  EXPECT_TRUE(nothing.done());
  nothing.wait();
}

TEST_P(IoQueueTest, AFileThatEndsTooEarlyIsSaid) {
  IoQueue queue(GetParam().config, GetParam().kind);
  const auto path = folder_.write("short", std::string(10'000, 'x'));
  const AsyncFile file = AsyncFile::open_for_reading(path);
  const AlignedBuffer memory(40'960);
  PendingTransfer read = queue.read(file, 0, memory.bytes());
  const auto message = ThrowsMessage<DataError>(AllOf(
      StartsWith(path + ": the file ends too early"),
      HasSubstr("at offset")));
  EXPECT_THAT([&] { read.wait(); }, message);
  EXPECT_THAT([&] { read.wait(); }, message) << "the same again";
  EXPECT_TRUE(read.done());
}

TEST_P(IoQueueTest, ErrorsHavePathOffsetAndReason) {
  IoQueue queue(GetParam().config, GetParam().kind);
  const auto path = folder_.write("read-only", std::string(8192, 'x'));
  const AsyncFile file = AsyncFile::open_for_reading(path);
  const AlignedBuffer memory(4096);
  std::memset(memory.data(), 0, memory.size());
  PendingTransfer write = queue.write(file, 4096, memory.bytes());
  EXPECT_THAT(
      [&] { write.wait(); },
      ThrowsMessage<DataError>(
          path +
          ": cannot write: Bad file descriptor (4096 bytes at offset 4096)"));
  // The error was told already, so the queue goes on.
  queue.read(file, 0, memory.bytes()).wait();
}

TEST_P(IoQueueTest, AnErrorNobodyWaitedForComesWithTheNextCall) {
  IoQueue queue(GetParam().config, GetParam().kind);
  const auto path = folder_.write("read-only", "text");
  const AsyncFile file = AsyncFile::open_for_reading(path);
  const AlignedBuffer memory(4096);
  std::memset(memory.data(), 0, memory.size());
  { const PendingTransfer dropped = queue.write(file, 0, memory.bytes()); }
  EXPECT_THAT(
      [&] { queue.read(file, 0, memory.bytes().first(4)).wait(); },
      ThrowsMessage<DataError>(HasSubstr("Bad file descriptor")));
  queue.read(file, 0, memory.bytes().first(4)).wait();
}

TEST_P(IoQueueTest, TheQueueFinishesWhatItWasGiven) {
  const AlignedBuffer memory(1 << 20);
  fill(memory.bytes(), 0);
  PendingTransfer late;
  {
    IoQueue queue(GetParam().config, GetParam().kind);
    late = queue.write(AsyncFile::create(folder_ / "file"), 0, memory.bytes());
  }
  EXPECT_TRUE(late.done());
  late.wait();
  const std::string text = read_file(folder_ / "file", limit);
  EXPECT_EQ(text.size(), memory.size());
  EXPECT_TRUE(is_filled(std::as_bytes(std::span(text)), 0));
}

TEST_P(IoQueueTest, ASliceIsAFileOfItsOwn) {
  IoQueue queue(GetParam().config, GetParam().kind);
  const AsyncFile whole = AsyncFile::create(folder_ / "file");
  const AsyncFile part = whole.slice("/store/part", 4096, 8192);
  const AlignedBuffer memory(8192);
  fill(memory.bytes(), 0);
  queue.write(part, 0, memory.bytes()).wait();
  EXPECT_EQ(std::filesystem::file_size(folder_ / "file"), 4096U + 8192U);
  EXPECT_THAT(
      [&] { queue.write(part, 4096, memory.bytes()).wait(); },
      ThrowsMessage<InternalError>(AllOf(
          HasSubstr("/store/part"),
          HasSubstr("8192 bytes at offset 4096 of 8192"))));
  EXPECT_THROW(part.slice("x", 8192, 1), InternalError);
  EXPECT_THROW(part.slice("x", ~std::uint64_t{0}, 1), InternalError);
  // Offsets in messages are the slice's own.
  const AsyncFile behind = whole.slice("/store/behind", 12288, 4096);
  EXPECT_THAT(
      [&] { queue.read(behind, 0, memory.bytes().first(4096)).wait(); },
      ThrowsMessage<DataError>(AllOf(
          StartsWith("/store/behind: the file ends too early"),
          HasSubstr("4096 bytes at offset 0"))));
}

// A limit on file sizes cuts a write short before it fails, and not at a block.
TEST_P(IoQueueTest, AShortWriteGoesOnUntilTheReason) {
  const int status = run_in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small { 300'000, 300'000 };
    if (::setrlimit(RLIMIT_FSIZE, &small) != 0) {
      return 2;
    }
    IoQueue queue(GetParam().config, GetParam().kind);
    AsyncFile file = AsyncFile::create(folder_ / "file");
    const AlignedBuffer memory(1 << 20);
    fill(memory.bytes(), 0);
    try {
      queue.write(file, 0, memory.bytes()).wait();
    } catch (const DataError& error) {
      const std::string text = error.what();
      return text.find("cannot write: File too large") != text.npos &&
              text.find("bytes at offset ") != text.npos
          ? 0
          : 3;
    }
    return 1;
  });
  EXPECT_EQ(status, 0);
  const std::string text = read_file(folder_ / "file", limit);
  EXPECT_EQ(text.size(), 300'000U);
  EXPECT_TRUE(is_filled(std::as_bytes(std::span(text)), 0));
}

TEST_P(IoQueueTest, AFullDiskIsSaid) {
  constexpr int cannot_mount = 77;
  const int status = run_in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", folder_.path().c_str(), "tmpfs", 0, "size=256k") != 0) {
      return cannot_mount;
    }
    IoQueue queue(GetParam().config, GetParam().kind);
    AsyncFile file = AsyncFile::create(folder_ / "file");
    const AlignedBuffer memory(1 << 20);
    std::memset(memory.data(), 1, memory.size());
    const auto fails_with = [](const auto& call, const std::string& what) {
      try {
        call();
      } catch (const DataError& error) {
        const std::string text = error.what();
        return text.find(what) != text.npos &&
            text.find("free some space") != text.npos;
      }
      return false;
    };
    const bool write = fails_with(
        [&] { queue.write(file, 0, memory.bytes()).wait(); },
        "cannot write: No space left on device (");
    const bool reserve = fails_with(
        [&] { file.reserve(0, 1 << 20); },
        "cannot take room on the disk: No space left on device (1048576 ");
    return write && reserve ? 0 : 1;
  });
  if (status == cannot_mount) {
    GTEST_SKIP() << "mounting a small file system needs root";
  }
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Engines,
    IoQueueTest,
    ::testing::ValuesIn(setups),
    setup_name);

TEST(IoQueue, RefusesSettingsThatCannotBe) {
  EXPECT_THAT(
      [] { IoQueue({.block_size = 1000}); },
      ThrowsMessage<ConfigError>(AllOf(
          StartsWith("aio.block_size: must be a multiple of 4096"),
          HasSubstr("it is 1000"))));
  EXPECT_THAT(
      [] { IoQueue({.queue_depth = 0}); },
      ThrowsMessage<ConfigError>(HasSubstr("aio.queue_depth")));
  EXPECT_THAT(
      [] { IoQueue({.queue_depth = 1'000'000}); },
      ThrowsMessage<ConfigError>(HasSubstr("must be from 1 to 4096")));
  EXPECT_THAT(
      [] { IoQueue({.intra_op_parallelism = 1000}); },
      ThrowsMessage<ConfigError>(HasSubstr("aio.intra_op_parallelism")));
}

TEST(AsyncFile, OpensOrSaysWhyNot) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      [&] { AsyncFile::open_for_reading(folder / "absent"); },
      ThrowsMessage<DataError>(HasSubstr("No such file or directory")));
  EXPECT_THAT(
      [&] { AsyncFile::create(folder / "no/such/folder"); },
      ThrowsMessage<DataError>(HasSubstr("No such file or directory")));
}

TEST(AsyncFile, ReservesAndNeverShrinks) {
  const TemporaryFolder folder;
  AsyncFile file = AsyncFile::create(folder / "file");
  file.reserve(0, 10'000);
  EXPECT_EQ(std::filesystem::file_size(folder / "file"), 10'000U);
  file.reserve(0, 5'000);
  EXPECT_EQ(std::filesystem::file_size(folder / "file"), 10'000U);
  EXPECT_EQ(read_file(folder / "file", limit), std::string(10'000, '\0'));
}

} // namespace
} // namespace cairn::io::io_queue_test
