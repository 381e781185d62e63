#include "data/internal/byte_stream.h"

#include "data/read/unpacked_streams.h"

#include <string_view>
#include <utility>

namespace cairn::data {
namespace {

class PlainStream : public RawStream {
 public:
  using RawStream::RawStream;
  std::size_t read(std::span<char> out) override { return raw_.read(out); }
};

bool is_bzip2(std::string_view start) {
  // "BZh" may begin a text, so the mark of the first block is checked too.
  return start.size() >= 10 && start.starts_with("BZh") && start[3] >= '1' &&
      start[3] <= '9' &&
      (start.substr(4, 6) == "1AY&SY" ||
       start.substr(4, 6) == "\x17\x72\x45\x38\x50\x90");
}

} // namespace

bool RawStream::another_member(std::string_view magic) {
  for (;;) {
    const auto bytes = raw_.available();
    if (bytes.empty()) {
      return false;
    }
    if (bytes[0] != '\0') {
      break;
    }
    raw_.consume(1);
  }
  const auto next = raw_.at_least(magic.size());
  if (!std::string_view(next.data(), next.size()).starts_with(magic)) {
    raw_.refuse("has other bytes after its compressed data");
  }
  return true;
}

std::unique_ptr<ByteStream> open_input(
    const std::filesystem::path& path,
    int interrupt) {
  RawInput raw(path, interrupt);
  const auto bytes = raw.at_least(10);
  const std::string_view start(bytes.data(), bytes.size());
  if (start.starts_with("\x1f\x8b")) {
    return unpack_gzip(std::move(raw));
  }
  const bool skippable_frame = start.size() >= 4 &&
      (start[0] & '\xf0') == '\x50' && start.substr(1, 3) == "\x2a\x4d\x18";
  if (start.starts_with("\x28\xb5\x2f\xfd") || skippable_frame) {
    return unpack_zstd(std::move(raw));
  }
  if (start.starts_with(std::string_view("\xfd\x37zXZ\0", 6))) {
    return unpack_xz(std::move(raw));
  }
  if (is_bzip2(start)) {
    return unpack_bzip2(std::move(raw));
  }
  return std::make_unique<PlainStream>(std::move(raw));
}

} // namespace cairn::data
