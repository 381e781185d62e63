#include "corpus/download/zip_archive.h"

#include "base/internal/zip_members.h"

#include <cairn/base/file.h>
#include <cairn/base/mapped_file.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cairn::corpus {
namespace {

class ZipReader {
 public:
  ZipReader(std::span<const std::byte> bytes, ArchiveOutput& output)
      : bytes_(bytes), output_(output) {}

  void unpack() {
    const auto members =
        zip_members(bytes_, [this](std::uint64_t at) { broken(at); });
    for (const ZipMember& member : members) {
      if (member.link) {
        output_.refuse("a member is a link");
      }
      if (member.encrypted()) {
        output_.refuse("the archive is encrypted");
      }
      if (member.name.ends_with('/')) {
        output_.make_folder(member.name);
        continue;
      }
      output_.begin(member.name);
      unpack(member);
      output_.finish();
    }
  }

 private:
  [[noreturn]] void broken(std::uint64_t at) const {
    output_.refuse(
        "this is no zip archive, or a broken one",
        fmt::format("at byte {} of {}", at, bytes_.size()));
  }

  void unpack(const ZipMember& member) {
    crc_ = ::crc32(0, nullptr, 0);
    written_ = 0;
    constexpr int stored = 0;
    constexpr int deflated = 8;
    if (member.method == stored) {
      copy(member.packed);
    } else if (member.method == deflated) {
      inflate(member);
    } else {
      output_.refuse(
          "a member is packed in a way that is not known here",
          fmt::format("method {}", member.method));
    }
    if (written_ != member.size || crc_ != member.crc) {
      output_.refuse(
          "a member's checksum is wrong",
          fmt::format("the one whose header is at byte {}", member.header_at));
    }
  }

  void write(std::span<const char> bytes) {
    crc_ = ::crc32_z(
        crc_,
        reinterpret_cast<const Bytef*>(bytes.data()),
        bytes.size());
    written_ += bytes.size();
    output_.write(bytes);
  }

  void copy(std::span<const std::byte> packed) {
    constexpr std::size_t step = 1 << 20;
    for (std::size_t at = 0; at < packed.size(); at += step) {
      const auto part = packed.subspan(at, std::min(step, packed.size() - at));
      write({reinterpret_cast<const char*>(part.data()), part.size()});
    }
  }

  void inflate(const ZipMember& member) {
    std::span<const std::byte> packed = member.packed;
    struct Stream : z_stream {
      Stream() : z_stream{} {}
      ~Stream() { ::inflateEnd(this); }
    } stream;
    if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
      throw std::bad_alloc();
    }
    std::vector<char> buffer(256 << 10);
    int state = Z_OK;
    while (state != Z_STREAM_END) {
      if (stream.avail_in == 0) {
        const auto part = std::min<std::size_t>(packed.size(), 1 << 20);
        stream.next_in = reinterpret_cast<Bytef*>(
            const_cast<std::byte*>(packed.data())); // zlib only reads it
        stream.avail_in = static_cast<uInt>(part);
        packed = packed.subspan(part);
      }
      stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
      stream.avail_out = static_cast<uInt>(buffer.size());
      state = ::inflate(&stream, Z_NO_FLUSH);
      const auto got = buffer.size() - stream.avail_out;
      if ((state != Z_OK && state != Z_STREAM_END) ||
          written_ + got > member.size) {
        broken(member.header_at);
      }
      write(std::span<const char>(buffer).first(got));
    }
  }

  std::span<const std::byte> bytes_;
  ArchiveOutput& output_;
  uLong crc_ = 0;
  std::uint64_t written_ = 0;
};

} // namespace

bool is_zip(const std::filesystem::path& path) {
  const UniqueFd fd = open_file(path, O_RDONLY);
  std::array<std::byte, 4> start{};
  const ssize_t got = ::read(fd.get(), start.data(), start.size());
  return begins_as_zip(std::span(start).first(got > 0 ? std::size_t(got) : 0));
}

void unpack_zip(const std::filesystem::path& path, ArchiveOutput& output) {
  const MappedFile file(path);
  ZipReader(file.bytes(), output).unpack();
}

} // namespace cairn::corpus
