#include "checkpoints/native/stored_file.h"

#include "base/internal/file_error.h"
#include "checkpoints/internal/damaged_checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace cairn::checkpoints {

StoredFile::StoredFile(const std::filesystem::path& path)
    : path_(path),
      mapped_(path),
      direct_(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC)) {}

bool StoredFile::in_cache(std::uint64_t at) const {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  auto* const first =
      const_cast<std::byte*>(mapped_.bytes().data()) + at / page * page;
  unsigned char resident = 1; // stays so where the kernel does not tell
  ::mincore(first, 1, &resident);
  return (resident & 1U) != 0;
}

std::span<const std::byte> StoredFile::mapped(
    std::uint64_t at,
    std::size_t size) const {
  return mapped_.bytes().subspan(at, size);
}

std::span<const std::byte> StoredFile::read(
    std::uint64_t at,
    std::size_t size,
    std::span<std::byte> room) const {
  if (!direct_) {
    return mapped(at, size);
  }
  const std::uint64_t begin = at / io::direct_alignment * io::direct_alignment;
  const std::size_t before = at - begin;
  const std::size_t wanted = before + size;
  const auto whole =
      static_cast<std::size_t>(io::round_up_to_alignment(wanted));
  for (std::size_t got = 0; got < wanted;) {
    const ssize_t more = ::pread(
        direct_.get(),
        room.data() + got,
        whole - got,
        static_cast<off_t>(begin + got));
    if (more > 0) {
      got += static_cast<std::size_t>(more);
    } else if (more < 0 && errno == EINVAL) {
      // The file system let us open the file, but does not read it directly.
      return mapped(at, size);
    } else if (more == 0 || errno != EINTR) {
      throw DamagedCheckpoint(
          more < 0 ? file_error("read", path_, errno).problem()
                   : Problem{
                         .what = "the file was cut off while it was read",
                         .where = path_.string(),
                         .values = fmt::format("at byte {}", begin + got)});
    }
  }
  return room.subspan(before, size);
}

} // namespace cairn::checkpoints
