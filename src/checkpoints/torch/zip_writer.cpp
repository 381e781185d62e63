#include "checkpoints/torch/zip_writer.h"

#include <cairn/base/error.h>
#include <zlib.h>

#include <algorithm>
#include <concepts>
#include <string_view>

namespace cairn::checkpoints {

namespace {

constexpr std::size_t alignment = 64;
constexpr std::uint64_t largest_32 = 0xffffffff;
// Version of the format, for large files.
constexpr std::uint16_t version_64 = 45;

/// A record of little-endian numbers, each of its own width.
class Record {
 public:
  template <std::integral Number>
  Record& put(Number value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Record& put(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  std::size_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// The value for a 32-bit field. A larger value stands in an extra field.
std::uint32_t narrowed(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min(value, largest_32));
}

/// Writes the fields that both headers share: version, flags, method, time,
/// date, checksum and sizes.
void put_common(
    Record& record,
    std::uint64_t size,
    std::uint32_t crc,
    bool large) {
  constexpr std::uint16_t names_are_utf8 = 0x0800;
  constexpr std::uint16_t checksum_follows = 0x0008;
  record.put(version_64)
      .put(static_cast<std::uint16_t>(names_are_utf8 | checksum_follows))
      .put(std::uint16_t{0}) // method: stored
      .put(std::uint16_t{0})
      .put(std::uint16_t{0x21}) // date: 1980-01-01, no clock in a file
      .put(crc)
      .put(large ? narrowed(largest_32) : narrowed(size))
      .put(large ? narrowed(largest_32) : narrowed(size));
}

} // namespace

void ZipWriter::add(const std::string& name, std::span<const std::byte> bytes) {
  begin(name, bytes.size());
  write(bytes);
}

void ZipWriter::write(std::span<const std::byte> bytes) {
  if (bytes.size() > missing_) {
    throw InternalError({.what = "more bytes than announced"});
  }
  std::uint32_t& crc = members_.back().crc;
  crc = static_cast<std::uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  file_.write(bytes);
  missing_ -= bytes.size();
}

/// Ends a member. Its checksum comes after the bytes, when it is known.
void ZipWriter::end() {
  if (missing_ != 0) {
    throw InternalError({.what = "fewer bytes than announced"});
  }
  if (members_.empty()) {
    return;
  }
  const Member& member = members_.back();
  Record tail;
  tail.put(std::uint32_t{0x08074b50}).put(member.crc);
  if (member.size >= largest_32) {
    tail.put(member.size).put(member.size);
  } else {
    tail.put(narrowed(member.size)).put(narrowed(member.size));
  }
  file_.write(tail.bytes());
}

void ZipWriter::begin(const std::string& name, std::uint64_t size) {
  end();
  const Member member{
      .name = name,
      .size = size,
      .offset = file_.size() - start_};
  const bool large = member.size >= largest_32;
  Record extra;
  if (large) {
    extra.put(std::uint16_t{1})
        .put(std::uint16_t{16})
        .put(member.size)
        .put(member.size);
  }
  const std::size_t before =
      member.offset + 30 + name.size() + extra.size() + 4;
  const std::size_t padding = (alignment - before % alignment) % alignment;
  extra
      .put(std::uint16_t{0x4246}) // "FB", as torch has it
      .put(static_cast<std::uint16_t>(padding))
      .put(std::string(padding, 'Z'));
  Record header;
  header.put(std::uint32_t{0x04034b50});
  put_common(header, member.size, 0, large);
  header.put(static_cast<std::uint16_t>(name.size()))
      .put(static_cast<std::uint16_t>(extra.size()))
      .put(name)
      .put(extra.bytes());
  file_.write(header.bytes());
  members_.push_back(member);
  missing_ = size;
}

void ZipWriter::finish() {
  end();
  const std::uint64_t begin = file_.size() - start_;
  for (const Member& member : members_) {
    const bool large = member.size >= largest_32 || member.offset >= largest_32;
    Record extra;
    if (large) {
      extra.put(std::uint16_t{1})
          .put(std::uint16_t{24})
          .put(member.size)
          .put(member.size)
          .put(member.offset);
    }
    Record entry;
    entry.put(std::uint32_t{0x02014b50}).put(version_64);
    put_common(entry, member.size, member.crc, large);
    entry.put(static_cast<std::uint16_t>(member.name.size()))
        .put(static_cast<std::uint16_t>(extra.size()))
        .put(std::uint16_t{0}) // length of the comment
        .put(std::uint16_t{0}) // disk
        .put(std::uint16_t{0})
        .put(std::uint32_t{0})
        .put(large ? narrowed(largest_32) : narrowed(member.offset))
        .put(member.name)
        .put(extra.bytes());
    file_.write(entry.bytes());
  }
  const std::uint64_t end = file_.size() - start_;
  const std::uint64_t count = members_.size();
  Record tail;
  if (end >= largest_32 || count >= 0xffff) {
    tail.put(std::uint32_t{0x06064b50})
        .put(std::uint64_t{44})
        .put(version_64)
        .put(version_64)
        .put(std::uint32_t{0})
        .put(std::uint32_t{0})
        .put(count)
        .put(count)
        .put(end - begin)
        .put(begin)
        .put(std::uint32_t{0x07064b50})
        .put(std::uint32_t{0})
        .put(end)
        .put(std::uint32_t{1});
  }
  const auto few =
      static_cast<std::uint16_t>(std::min<std::uint64_t>(count, 0xffff));
  tail.put(std::uint32_t{0x06054b50})
      .put(std::uint16_t{0})
      .put(std::uint16_t{0})
      .put(few)
      .put(few)
      .put(narrowed(end - begin))
      .put(narrowed(begin))
      .put(std::uint16_t{0});
  file_.write(tail.bytes());
}

} // namespace cairn::checkpoints
