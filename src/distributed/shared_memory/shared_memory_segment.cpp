#include "distributed/shared_memory/shared_memory_segment.h"

#include <cairn/base/error.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

namespace cairn::distributed {
namespace {

std::string errno_text(int error = errno) {
  return std::generic_category().message(error);
}

[[noreturn]] void refuse(std::string what) {
  throw CommError({.what = std::move(what)});
}

/// A name that tells one segment from another: two processes may open the same
/// number in /proc and mean different memory.
std::string random_name() {
  std::uint64_t words[2] = {};
  if (::getrandom(words, sizeof(words), 0) != sizeof(words)) {
    refuse("no random name for shared memory: " + errno_text());
  }
  return fmt::format("cairn-{:016x}{:016x}", words[0], words[1]);
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  ::gethostname(name, HOST_NAME_MAX);
  return *name ? name : "?";
}

/// An id that changes with every start of the machine. Containers of one
/// machine share it.
std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id.empty() ? "?" : id;
}

flock byte_of(int member, short type) {
  flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = member;
  lock.l_len = 1;
  return lock;
}

} // namespace

SharedMemorySegment::SharedMemorySegment(
    UniqueFd fd,
    std::string name,
    std::size_t size)
    : fd_(std::move(fd)), name_(std::move(name)), size_(size) {
  void* const memory =
      ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (memory == MAP_FAILED) {
    refuse(fmt::format("mmap of {} bytes: {}", size_, errno_text()));
  }
  data_ = static_cast<std::byte*>(memory);
}

SharedMemorySegment::SharedMemorySegment(SharedMemorySegment&& other) noexcept
    : fd_(std::move(other.fd_)),
      name_(std::move(other.name_)),
      size_(other.size_),
      data_(std::exchange(other.data_, nullptr)) {}

SharedMemorySegment::~SharedMemorySegment() {
  if (data_) {
    ::munmap(data_, size_);
  }
}

SharedMemorySegment SharedMemorySegment::create(std::size_t bytes) {
  std::string name = random_name();
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) {
    refuse("memfd_create: " + errno_text());
  }
  // Beyond this limit the system does not refuse, but kills.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    refuse(fmt::format(
        "{} bytes of shared memory are more than `ulimit -f` allows",
        bytes));
  }
  // All pages are taken now: a page that cannot be had later would be a SIGBUS.
  const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
  if (error != 0) {
    refuse(
        fmt::format("{} bytes of shared memory: {}", bytes, errno_text(error)));
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    refuse("the size of shared memory cannot be sealed: " + errno_text());
  }
  return {std::move(fd), std::move(name), bytes};
}

std::string SharedMemorySegment::ticket() const {
  return fmt::format(
      "{} {} {} {} {}",
      boot_id(),
      ::getpid(),
      fd_.get(),
      name_,
      host_name());
}

SharedMemorySegment SharedMemorySegment::open(const std::string& ticket) {
  std::istringstream fields(ticket);
  std::string boot;
  std::string name;
  std::string host;
  pid_t pid = 0;
  int number = -1;
  if (!(fields >> boot >> pid >> number >> name >> host)) {
    refuse(fmt::format("\"{}\" is no ticket for shared memory", ticket));
  }
  if (boot != boot_id()) {
    refuse(fmt::format("{} and {} are two machines", host, host_name()));
  }
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, number);
  // Look before opening: opening someone else's pipe or terminal could block or
  // do harm.
  char target[PATH_MAX] = {};
  if (::readlink(path.c_str(), target, sizeof(target) - 1) < 0) {
    refuse(
        fmt::format("{}: {}; another container or user?", path, errno_text()));
  }
  if (target != fmt::format("/memfd:{} (deleted)", name)) {
    refuse(path + " is another file; another container?");
  }
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    refuse(fmt::format("{}: {}", path, errno_text()));
  }
  return {
      std::move(fd),
      std::move(name),
      static_cast<std::size_t>(status.st_size)};
}

// An OFD lock belongs to the open file, not to the process, and ends with its
// last descriptor. It therefore ends also when the process is killed, and can
// be seen from any container.
void SharedMemorySegment::join(int member) {
  flock lock = byte_of(member, F_WRLCK);
  if (::fcntl(fd_.get(), F_OFD_SETLK, &lock) != 0) {
    refuse("shared memory cannot be locked: " + errno_text());
  }
}

bool SharedMemorySegment::holds(int member) const {
  flock lock = byte_of(member, F_WRLCK);
  // If fcntl cannot tell, the member counts as present: the collective's
  // timeout decides.
  return ::fcntl(fd_.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

} // namespace cairn::distributed
