#include "corpus/download/download_digests.h"

#include <cairn/base/error.h>

#include "base/internal/ascii_case.h"
#include "base/internal/file_error.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace cairn::corpus {

DownloadDigests::DownloadDigests(bool with_sha1) {
  if (with_sha1) {
    sha1_.emplace("sha1");
  }
}

void DownloadDigests::reset() {
  sha256_.reset();
  if (sha1_) {
    sha1_->reset();
  }
}

void DownloadDigests::update(std::span<const char> bytes) {
  sha256_.update(bytes);
  if (sha1_) {
    sha1_->update(bytes);
  }
}

std::uint64_t DownloadDigests::update_from(
    int fd,
    const std::filesystem::path& path) {
  std::vector<char> buffer(1 << 20);
  std::uint64_t size = 0;
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      throw file_error("read", path, errno);
    }
    if (got == 0) {
      return size;
    }
    update(std::span(buffer).first(static_cast<std::size_t>(got)));
    size += static_cast<std::uint64_t>(got);
  }
}

std::string DownloadDigests::hex(Checksum::Kind kind) const {
  return kind == Checksum::Kind::sha256 ? sha256() : sha1_.value().hex();
}

bool needs_sha1(const DownloadRequest& request) {
  return request.expected && request.expected->kind == Checksum::Kind::sha1;
}

std::string mismatch(const Checksum& expected, const std::string& found) {
  return fmt::format(
      "{} is {} and should be {}",
      expected.kind == Checksum::Kind::sha256 ? "sha256" : "sha1",
      found,
      expected.hex);
}

Checksum sha256_checksum(const std::string& hex) {
  const Checksum sum{.hex = lower_case(hex)};
  if (sum.hex.size() != 64 ||
      sum.hex.find_first_not_of("0123456789abcdef") != std::string::npos) {
    throw ConfigError(
        {.what = fmt::format("\"{}\" is no SHA-256", hex),
         .remedy = "give its 64 hexadecimal digits"});
  }
  return sum;
}

} // namespace cairn::corpus
