#include "data/read/unpacked_streams.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

namespace cairn::data {
namespace {

class GzipStream : public RawStream {
 public:
  explicit GzipStream(RawInput raw) : RawStream(std::move(raw)) {
    constexpr int gzip_header_only = 16;
    if (::inflateInit2(&state_, MAX_WBITS + gzip_header_only) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~GzipStream() override { ::inflateEnd(&state_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  std::size_t read(std::span<char> out) override {
    if (out.empty() || ended_) {
      return 0;
    }
    const auto room = static_cast<uInt>(
        std::min<std::size_t>(out.size(), std::numeric_limits<uInt>::max()));
    state_.next_out = reinterpret_cast<Bytef*>(out.data());
    state_.avail_out = room;
    while (state_.avail_out == room) {
      const auto bytes = raw_.available();
      state_.next_in =
          reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      state_.avail_in = static_cast<uInt>(bytes.size());
      const int code = ::inflate(&state_, Z_NO_FLUSH);
      raw_.consume(bytes.size() - state_.avail_in);
      if (code == Z_STREAM_END) {
        if (!another_member("\x1f\x8b")) {
          ended_ = true;
          break;
        }
        ::inflateReset(&state_);
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        raw_.refuse(fmt::format(
            "is broken gzip data: {}",
            state_.msg != nullptr ? state_.msg : "cannot be unpacked"));
      } else if (bytes.empty() && state_.avail_out == room) {
        raw_.refuse_torn();
      }
    }
    return room - state_.avail_out;
  }

 private:
  z_stream state_{};
  bool ended_ = false;
};

} // namespace

std::unique_ptr<ByteStream> unpack_gzip(RawInput raw) {
  return std::make_unique<GzipStream>(std::move(raw));
}

} // namespace cairn::data
