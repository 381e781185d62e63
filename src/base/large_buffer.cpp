#include "base/internal/large_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace cairn::inline base {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

} // namespace

LargeBuffer::LargeBuffer(std::size_t size) : size_(size) {
  if (size == 0) {
    return;
  }
  // A huge page more than asked for is mapped, since the kernel makes huge
  // pages only of aligned stretches. Pages that are never touched cost nothing.
  const std::size_t mapped = size + huge_page;
  void* const memory = ::mmap(
      nullptr,
      mapped,
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS,
      -1,
      0);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  ::madvise(memory, mapped, MADV_HUGEPAGE);
  const std::size_t over = reinterpret_cast<std::size_t>(memory) % huge_page;
  auto* const first = static_cast<std::byte*>(memory) +
      (over == 0 || size < huge_page ? 0 : huge_page - over);
  memory_ = std::shared_ptr<std::byte>(first, [memory, mapped](std::byte*) {
    ::munmap(memory, mapped);
  });
}

void LargeBuffer::shrink(std::size_t size) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // Only the memory is given back; the addresses stay reserved until the end.
  const std::size_t kept = (size + page - 1) / page * page;
  if (kept < size_) {
    ::madvise(memory_.get() + kept, size_ - kept, MADV_DONTNEED);
  }
  size_ = size;
}

} // namespace cairn::base
