#include "corpus/zip_archive.h"

#include <cairn/base/file.h>
#include <cairn/base/mapped_file.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn::corpus {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t local_mark = 0x04034b50;
constexpr std::uint32_t central_mark = 0x02014b50;
constexpr std::uint32_t end_mark = 0x06054b50;
constexpr std::uint32_t end64_mark = 0x06064b50;
constexpr std::uint32_t end64_locator_mark = 0x07064b50;

struct Member {
  std::string name;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0;
  std::uint64_t size = 0;
  std::uint64_t header_at = 0;
  bool link = false;
};

class ZipReader {
 public:
  ZipReader(std::span<const std::byte> bytes, ArchiveOutput& output)
      : bytes_(bytes), output_(output) {}

  void unpack() {
    for (const Member& member : members()) {
      if (member.link) {
        output_.refuse("a member is a link");
      }
      if ((member.flags & 1) != 0) {
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

  std::span<const std::byte> slice(std::uint64_t at, std::uint64_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) {
      broken(std::min<std::uint64_t>(at, bytes_.size()));
    }
    return bytes_.subspan(
        static_cast<std::size_t>(at),
        static_cast<std::size_t>(size));
  }

  template <typename Integer>
  Integer get(std::uint64_t at) const {
    Integer value;
    std::memcpy(&value, slice(at, sizeof value).data(), sizeof value);
    return value;
  }

  std::string text(std::uint64_t at, std::uint64_t size) const {
    const auto bytes = slice(at, size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  /// The end record is at the end, before a comment of up to 64 KB.
  std::uint64_t find_end() const {
    constexpr std::uint64_t record = 22;
    constexpr std::uint64_t most_comment = 0xffff;
    if (bytes_.size() < record) {
      broken(0);
    }
    const std::uint64_t last = bytes_.size() - record;
    const std::uint64_t first = last - std::min(last, most_comment);
    for (std::uint64_t at = last + 1; at-- > first;) {
      if (get<std::uint32_t>(at) == end_mark &&
          get<std::uint16_t>(at + 20) == last - at) {
        return at;
      }
    }
    broken(last);
  }

  std::vector<Member> members() const {
    const std::uint64_t end = find_end();
    std::uint64_t count = get<std::uint16_t>(end + 10);
    std::uint64_t at = get<std::uint32_t>(end + 16);
    constexpr std::uint64_t locator = 20;
    if (end >= locator &&
        get<std::uint32_t>(end - locator) == end64_locator_mark) {
      const auto end64 = get<std::uint64_t>(end - locator + 8);
      if (get<std::uint32_t>(end64) != end64_mark) {
        broken(end64);
      }
      count = get<std::uint64_t>(end64 + 32);
      at = get<std::uint64_t>(end64 + 48);
    }
    std::vector<Member> found; // grows with the bytes there are, not with count
    for (std::uint64_t i = 0; i < count; ++i) {
      found.push_back(central_record(at));
    }
    return found;
  }

  /// Moves `at` behind the record.
  Member central_record(std::uint64_t& at) const {
    if (get<std::uint32_t>(at) != central_mark) {
      broken(at);
    }
    const auto name_size = get<std::uint16_t>(at + 28);
    const auto extra_size = get<std::uint16_t>(at + 30);
    const auto comment_size = get<std::uint16_t>(at + 32);
    constexpr int unix_host = 3;
    const bool has_mode = get<std::uint16_t>(at + 4) >> 8 == unix_host;
    const auto mode = get<std::uint32_t>(at + 38) >> 16;
    Member member{
        .name = text(at + 46, name_size),
        .flags = get<std::uint16_t>(at + 8),
        .method = get<std::uint16_t>(at + 10),
        .crc = get<std::uint32_t>(at + 16),
        .packed = get<std::uint32_t>(at + 20),
        .size = get<std::uint32_t>(at + 24),
        .header_at = get<std::uint32_t>(at + 42),
        .link = has_mode && (mode & 0170000) == 0120000};
    read_extra(at + 46 + name_size, extra_size, member);
    at += std::uint64_t{46} + name_size + extra_size + comment_size;
    return member;
  }

  /// Takes the 64-bit numbers for those that do not fit in the record.
  void read_extra(std::uint64_t at, std::uint64_t size, Member& member) const {
    const std::uint64_t end = at + size;
    while (at + 4 <= end) {
      const auto kind = get<std::uint16_t>(at);
      const std::uint64_t next = at + 4 + get<std::uint16_t>(at + 2);
      if (next > end) {
        broken(at);
      }
      if (kind == 1) {
        std::uint64_t value_at = at + 4;
        for (std::uint64_t* const value :
             {&member.size, &member.packed, &member.header_at}) {
          if (*value == std::numeric_limits<std::uint32_t>::max()) {
            if (value_at + 8 > next) {
              broken(value_at);
            }
            *value = get<std::uint64_t>(value_at);
            value_at += 8;
          }
        }
      }
      at = next;
    }
  }

  void unpack(const Member& member) {
    const auto at = member.header_at;
    if (at > bytes_.size() || get<std::uint32_t>(at) != local_mark) {
      broken(std::min<std::uint64_t>(at, bytes_.size()));
    }
    const auto packed = slice(
        at + 30 + get<std::uint16_t>(at + 26) + get<std::uint16_t>(at + 28),
        member.packed);
    crc_ = ::crc32(0, nullptr, 0);
    written_ = 0;
    constexpr int stored = 0;
    constexpr int deflated = 8;
    if (member.method == stored) {
      copy(packed);
    } else if (member.method == deflated) {
      inflate(packed, member);
    } else {
      output_.refuse(
          "a member is packed in a way that is not known here",
          fmt::format("method {}", member.method));
    }
    if (written_ != member.size || crc_ != member.crc) {
      output_.refuse(
          "a member's checksum is wrong",
          fmt::format("the one whose header is at byte {}", at));
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

  void inflate(std::span<const std::byte> packed, const Member& member) {
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
  std::array<char, 4> start{};
  const ssize_t got = ::read(fd.get(), start.data(), start.size());
  const std::string_view mark(start.data(), got > 0 ? std::size_t(got) : 0);
  using namespace std::string_view_literals;
  return mark == "PK\3\4"sv || mark == "PK\5\6"sv; // the second is empty
}

void unpack_zip(const std::filesystem::path& path, ArchiveOutput& output) {
  const MappedFile file(path);
  ZipReader(file.bytes(), output).unpack();
}

} // namespace cairn::corpus
