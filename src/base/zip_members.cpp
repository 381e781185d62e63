#include "base/internal/zip_members.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <limits>
#include <string_view>

namespace cairn::inline base {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t local_mark = 0x04034b50;
constexpr std::uint32_t central_mark = 0x02014b50;
constexpr std::uint32_t end_mark = 0x06054b50;
constexpr std::uint32_t end64_mark = 0x06064b50;
constexpr std::uint32_t end64_locator_mark = 0x07064b50;

class Directory {
 public:
  Directory(
      std::span<const std::byte> bytes,
      const std::function<void(std::uint64_t)>& broken)
      : bytes_(bytes), broken_(broken) {}

  std::vector<ZipMember> members() const {
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
    std::vector<ZipMember> found; // no reserve(count): a broken file may lie
    for (std::uint64_t i = 0; i < count; ++i) {
      found.push_back(record(at));
    }
    return found;
  }

 private:
  [[noreturn]] void broken(std::uint64_t at) const {
    broken_(std::min<std::uint64_t>(at, bytes_.size()));
    std::terminate();
  }

  std::span<const std::byte> slice(std::uint64_t at, std::uint64_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) {
      broken(at);
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

  /// Finds the end record, which a comment of up to 64 KB may follow.
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

  /// Reads the record at `at` and moves `at` behind it.
  ZipMember record(std::uint64_t& at) const {
    if (get<std::uint32_t>(at) != central_mark) {
      broken(at);
    }
    const auto name_size = get<std::uint16_t>(at + 28);
    const auto extra_size = get<std::uint16_t>(at + 30);
    const auto comment_size = get<std::uint16_t>(at + 32);
    constexpr int unix_host = 3;
    const bool has_mode = get<std::uint16_t>(at + 4) >> 8 == unix_host;
    const auto mode = get<std::uint32_t>(at + 38) >> 16;
    ZipMember member{
        .name = text(at + 46, name_size),
        .flags = get<std::uint16_t>(at + 8),
        .method = get<std::uint16_t>(at + 10),
        .crc = get<std::uint32_t>(at + 16),
        .size = get<std::uint32_t>(at + 24),
        .header_at = get<std::uint32_t>(at + 42),
        .link = has_mode && (mode & 0170000) == 0120000};
    std::uint64_t packed = get<std::uint32_t>(at + 20);
    read_extra(at + 46 + name_size, extra_size, member, packed);
    member.packed = packed_bytes(member.header_at, packed);
    at += std::uint64_t{46} + name_size + extra_size + comment_size;
    return member;
  }

  /// Reads the 64-bit values of the numbers that do not fit in the record.
  void read_extra(
      std::uint64_t at,
      std::uint64_t size,
      ZipMember& member,
      std::uint64_t& packed) const {
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
             {&member.size, &packed, &member.header_at}) {
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

  std::span<const std::byte> packed_bytes(
      std::uint64_t header_at,
      std::uint64_t size) const {
    if (header_at > bytes_.size() ||
        get<std::uint32_t>(header_at) != local_mark) {
      broken(header_at);
    }
    return slice(
        header_at + 30 + get<std::uint16_t>(header_at + 26) +
            get<std::uint16_t>(header_at + 28),
        size);
  }

  std::span<const std::byte> bytes_;
  const std::function<void(std::uint64_t)>& broken_;
};

} // namespace

bool begins_as_zip(std::span<const std::byte> bytes) {
  using namespace std::string_view_literals;
  const std::string_view text(
      reinterpret_cast<const char*>(bytes.data()),
      bytes.size());
  return text.starts_with("PK\3\4"sv) || text.starts_with("PK\5\6"sv);
}

std::vector<ZipMember> zip_members(
    std::span<const std::byte> bytes,
    const std::function<void(std::uint64_t at)>& broken) {
  return Directory(bytes, broken).members();
}

} // namespace cairn::base
