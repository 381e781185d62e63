#include "base/internal/error_handover.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <system_error>

namespace cairn::inline base {
namespace {

constexpr const char* memory_name = "cairn-error";
constexpr std::size_t most = 4096; ///< longer texts are cut
constexpr char own = 'o';
constexpr char of_another = 'a';

/// True for the launcher's memory: a program may have closed the descriptor
/// and opened another file under its number.
bool is_error_memory(int fd) {
  std::error_code error;
  const auto target = std::filesystem::read_symlink(
      "/proc/self/fd/" + std::to_string(fd),
      error);
  return !error &&
      target.string().starts_with("/memfd:" + std::string(memory_name));
}

/// The descriptor of the memory that a launcher has lent this process; -1 if
/// none has.
int lent_memory() {
  const char* const number = std::getenv(error_memory_variable);
  if (number == nullptr) {
    return -1;
  }
  const std::string_view digits(number);
  int fd = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), fd);
  return fd > 2 && is_error_memory(fd) ? fd : -1;
}

} // namespace

UniqueFd make_error_memory() {
  return UniqueFd(::memfd_create(memory_name, MFD_CLOEXEC));
}

std::optional<HandedError> handed_error(int memory) {
  std::array<char, most> bytes{};
  const ssize_t got = ::pread(memory, bytes.data(), bytes.size(), 0);
  if (got <= 0) {
    return std::nullopt;
  }
  return HandedError{
      .of_another_rank = bytes[0] == of_another,
      .text = std::string(bytes.data() + 1, static_cast<std::size_t>(got) - 1)};
}

void hand_over_error(const HandedError& error) {
  const int fd = lent_memory();
  struct stat status {};
  if (fd < 0 || ::fstat(fd, &status) != 0 || status.st_size != 0) {
    return;
  }
  const std::string bytes = (error.of_another_rank ? of_another : own) +
      error.text.substr(0, most - 1);
  // A launcher that is gone needs no error.
  [[maybe_unused]] const auto written =
      ::pwrite(fd, bytes.data(), bytes.size(), 0);
}

void claim_error_memory() {
  const int fd = lent_memory();
  if (fd < 0) {
    return;
  }
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  // An error that cannot be cut off stays: an old cause is better than none.
  [[maybe_unused]] const auto cut = ::ftruncate(fd, 0);
}

} // namespace cairn::base
