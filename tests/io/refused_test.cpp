// A kernel that refuses io_uring, as in many containers, simulated by a filter
// on that system call.
#include "io/internal/preflight.h"
#include "support/child_process.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/io/aligned_buffer.h>
#include <cairn/io/io_queue.h>

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

namespace cairn::io::refused_test {
namespace {

using cairn::testing::run_in_child;
using cairn::testing::TemporaryFolder;

bool refuse_io_uring(unsigned error_number) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error_number),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog filter{4, program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(RefusedUring, ThreadsDoTheWorkAndTheReasonIsKnown) {
  for (const unsigned error_number : {EPERM, ENOSYS}) {
    const TemporaryFolder folder;
    const int status = run_in_child([&] {
      if (!refuse_io_uring(error_number)) {
        return 2;
      }
      IoQueue queue;
      if (queue.engine() != EngineKind::threads ||
          queue.why_not_uring() !=
              std::strerror(static_cast<int>(error_number))) {
        return 3;
      }
      AsyncFile file = AsyncFile::create_unnamed(folder.path());
      const AlignedBuffer memory(100'000);
      const AlignedBuffer other(100'000);
      std::memset(memory.data(), 7, memory.size());
      queue.write(file, 0, memory.bytes()).wait();
      queue.read(file, 0, other.bytes()).wait();
      if (std::memcmp(memory.data(), other.data(), memory.size()) != 0) {
        return 4;
      }
      const std::string line =
          to_string(check_nvme_folder(folder.path(), 1, {}, 1 << 20));
      if (line.find("; threads (io_uring: " + queue.why_not_uring() + "), ") ==
          line.npos) {
        return 5;
      }
      try {
        IoQueue({}, EngineKind::uring);
      } catch (const ConfigError& error) {
        const std::string text = error.what();
        return text.find("the kernel refuses io_uring: ") == 0 ? 0 : 6;
      }
      return 7;
    });
    EXPECT_EQ(status, 0);
  }
}

} // namespace
} // namespace cairn::io::refused_test
