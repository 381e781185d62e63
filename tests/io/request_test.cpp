// The reaction of a request to the answer of a system call.
#include "io/engine.h"
#include "io/transfer.h"
#include "support/temporary_folder.h"

#include <cairn/base/file.h>
#include <cairn/io/aligned_buffer.h>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace cairn::io::detail::request_test {
namespace {

using cairn::testing::TemporaryFolder;
using ::testing::ThrowsMessage;

struct Example {
  explicit Example(Direction direction, UniqueFd file, UniqueFd direct)
      : lost(std::make_shared<LostError>()),
        transfer(std::make_shared<Transfer>(
            direction,
            Transfer::Target{
                std::make_shared<OpenFile>(std::move(file), std::move(direct)),
                std::make_shared<const std::filesystem::path>("/a/file"),
                0},
            1,
            lost)) {}
  Request request(const AlignedBuffer& memory, std::uint64_t offset = 0) const {
    return {transfer, memory.data(), memory.size(), offset};
  }

  std::shared_ptr<LostError> lost;
  std::shared_ptr<Transfer> transfer;
};

TEST(Request, GoesOnAfterAShortAnswer) {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "");
  const Example example(
      Direction::read,
      open_file(path, O_RDONLY),
      open_file(path, O_RDONLY));
  const AlignedBuffer memory(8192);
  Request request = example.request(memory, 4096);
  EXPECT_TRUE(request.can_be_direct());
  EXPECT_TRUE(request.needs_more(-EINTR, true));
  EXPECT_EQ(request.size, 8192U);
  EXPECT_TRUE(request.needs_more(100, true));
  EXPECT_EQ(request.data, memory.data() + 100);
  EXPECT_EQ(request.size, 8092U);
  EXPECT_EQ(request.offset, 4196U);
  EXPECT_FALSE(request.can_be_direct()) << "the rest is not aligned";
  EXPECT_FALSE(example.transfer->done());
  EXPECT_FALSE(request.needs_more(8092, false));
  EXPECT_TRUE(example.transfer->done());
  example.transfer->wait();
}

TEST(Request, AnAnswerOfNothingEndsIt) {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "");
  const AlignedBuffer memory(4096);
  {
    const Example example(Direction::read, open_file(path, O_RDONLY), {});
    Request request = example.request(memory);
    EXPECT_FALSE(request.needs_more(0, false));
    EXPECT_THAT(
        [&] { example.transfer->wait(); },
        ThrowsMessage<DataError>(
            "/a/file: the file ends too early (4096 bytes at offset 0)"));
  }
  {
    const Example example(Direction::write, open_file(path, O_RDONLY), {});
    Request request = example.request(memory);
    EXPECT_FALSE(request.needs_more(0, false));
    EXPECT_THAT(
        [&] { example.transfer->wait(); },
        ThrowsMessage<DataError>("/a/file: cannot write: Input/output error "
                                 "(4096 bytes at offset 0)"));
  }
}

// A file system that opens with O_DIRECT and then refuses to transfer,
// simulated by a namespace, which can be opened, but answers every read with
// EINVAL.
TEST(Request, GoesThroughTheCacheWhereDirectIsRefusedLate) {
  const TemporaryFolder folder;
  const std::string text(8192, 'x');
  const std::string path = folder.write("file", text);
  const config::AioConfig config{.block_size = 4096, .queue_depth = 2};
  const auto uring = make_uring_engine(config);
  const auto threads = make_thread_engine(config);
  for (Engine* engine : {uring.engine.get(), threads.get()}) {
    if (engine == nullptr) {
      GTEST_LOG_(INFO) << "io_uring is refused: " << uring.why_not;
      continue;
    }
    const Example example(
        Direction::read,
        open_file(path, O_RDONLY),
        open_file("/proc/self/ns/mnt", O_RDONLY));
    const AlignedBuffer memory(8192);
    std::memset(memory.data(), 0, memory.size());
    EXPECT_TRUE(example.request(memory).can_be_direct());
    engine->submit({example.request(memory)});
    example.transfer->wait();
    EXPECT_EQ(std::memcmp(memory.data(), text.data(), text.size()), 0);
    EXPECT_FALSE(example.request(memory).can_be_direct());
  }
}

} // namespace
} // namespace cairn::io::detail::request_test
