#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace cairn::testing {

// Archives are written by hand, so that they can be wrong in every way.

inline std::string tar_member(
    const std::string& name,
    const std::string& body,
    char kind = '0') {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  put(0, name.substr(0, 100));
  put(100, "0000644");
  put(124, fmt::format("{:011o}", body.size()));
  put(148, "        ");
  header[156] = kind;
  put(257, "ustar");
  put(263, "00");
  unsigned total = 0;
  for (const char c : header) {
    total += static_cast<unsigned char>(c);
  }
  put(148, fmt::format("{:06o}", total) + '\0');
  std::string padded = body;
  padded.resize((body.size() + 511) / 512 * 512);
  return header + padded;
}

inline const std::string tar_end(1024, '\0');

inline std::string gzipped(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(
      ::deflateInit2(
          &stream,
          6,
          Z_DEFLATED,
          MAX_WBITS + 16,
          8,
          Z_DEFAULT_STRATEGY),
      Z_OK);
  std::string packed(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

inline std::string deflated(const std::string& text) {
  const auto whole = gzipped(text);
  return whole.substr(10, whole.size() - 18); // without gzip's head and sums
}

struct ZipMember {
  std::string name;
  std::string body;
  int method = 8;
  int flags = 0;
  std::uint32_t mode = 0100644;
  bool zip64 = false;
};

template <typename Integer>
std::string raw(Integer value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
inline std::string two(std::size_t value) {
  return raw(static_cast<std::uint16_t>(value));
}
inline std::string four(std::size_t value) {
  return raw(static_cast<std::uint32_t>(value));
}

inline std::string zip(const std::vector<ZipMember>& members) {
  std::string file;
  std::string directory;
  for (const auto& member : members) {
    const auto packed =
        member.method == 8 ? deflated(member.body) : member.body;
    const auto crc = ::crc32(
        0,
        reinterpret_cast<const Bytef*>(member.body.data()),
        static_cast<uInt>(member.body.size()));
    const std::size_t at = file.size();
    const auto common =
        two(20) + two(member.flags) + two(member.method) + four(0) + four(crc);
    const auto sizes = four(packed.size()) + four(member.body.size());
    file += "PK\3\4" + common + sizes + two(member.name.size()) + two(0) +
        member.name + packed;
    const auto extra = member.zip64
        ? two(1) + two(24) + raw(std::uint64_t{member.body.size()}) +
            raw(std::uint64_t{packed.size()}) + raw(std::uint64_t{at})
        : std::string();
    directory += "PK\1\2" + two(3 << 8 | 20) + common +
        (member.zip64 ? std::string(8, '\xff') : sizes) +
        two(member.name.size()) + two(extra.size()) + two(0) + two(0) + two(0) +
        four(std::size_t{member.mode} << 16) +
        (member.zip64 ? std::string(4, '\xff') : four(at)) + member.name +
        extra;
  }
  const std::size_t at = file.size();
  return file + directory + "PK\5\6" + two(0) + two(0) + two(members.size()) +
      two(members.size()) + four(directory.size()) + four(at) + two(0);
}

} // namespace cairn::testing
