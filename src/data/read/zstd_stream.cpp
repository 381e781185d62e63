#include "data/read/unpacked_streams.h"

#include <fmt/format.h>
#include <zstd.h>

#include <memory>
#include <new>
#include <utility>

namespace cairn::data {
namespace {

struct Free {
  void operator()(ZSTD_DStream* state) const { ::ZSTD_freeDStream(state); }
};

class ZstdStream : public RawStream {
 public:
  explicit ZstdStream(RawInput raw)
      : RawStream(std::move(raw)), state_(::ZSTD_createDStream()) {
    if (state_ == nullptr) {
      throw std::bad_alloc();
    }
  }

  std::size_t read(std::span<char> out) override {
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    while (to.pos == 0 && to.size > 0) {
      const auto bytes = raw_.available();
      if (bytes.empty() && between_frames_) {
        break;
      }
      ZSTD_inBuffer from{bytes.data(), bytes.size(), 0};
      const std::size_t code =
          ::ZSTD_decompressStream(state_.get(), &to, &from);
      if (::ZSTD_isError(code) != 0) {
        raw_.refuse(
            fmt::format("is broken zstd data: {}", ::ZSTD_getErrorName(code)));
      }
      raw_.consume(from.pos);
      between_frames_ = code == 0;
      if (bytes.empty() && to.pos == 0 && !between_frames_) {
        raw_.refuse_torn();
      }
    }
    return to.pos;
  }

 private:
  std::unique_ptr<ZSTD_DStream, Free> state_;
  bool between_frames_ = true;
};

} // namespace

std::unique_ptr<ByteStream> unpack_zstd(RawInput raw) {
  return std::make_unique<ZstdStream>(std::move(raw));
}

} // namespace cairn::data
