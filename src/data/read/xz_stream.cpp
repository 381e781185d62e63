#include <cairn/base/error.h>

#include "data/read/unpacked_streams.h"

#include <fmt/format.h>
#include <lzma.h>

#include <new>
#include <utility>

namespace cairn::data {
namespace {

// `xz -9` needs 65 MiB; a file that needs much more is an attack.
constexpr std::uint64_t memory_limit = 192ULL << 20;

class XzStream : public RawStream {
 public:
  explicit XzStream(RawInput raw) : RawStream(std::move(raw)) {
    if (::lzma_stream_decoder(&state_, memory_limit, LZMA_CONCATENATED) !=
        LZMA_OK) {
      throw std::bad_alloc();
    }
  }
  ~XzStream() override { ::lzma_end(&state_); }
  XzStream(const XzStream&) = delete;
  XzStream& operator=(const XzStream&) = delete;

  std::size_t read(std::span<char> out) override {
    if (out.empty() || ended_) {
      return 0;
    }
    state_.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    state_.avail_out = out.size();
    while (state_.avail_out == out.size() && !ended_) {
      const auto bytes = raw_.available();
      state_.next_in = reinterpret_cast<const std::uint8_t*>(bytes.data());
      state_.avail_in = bytes.size();
      const lzma_ret code =
          ::lzma_code(&state_, bytes.empty() ? LZMA_FINISH : LZMA_RUN);
      raw_.consume(bytes.size() - state_.avail_in);
      ended_ = check(code, bytes.empty());
    }
    return out.size() - state_.avail_out;
  }

 private:
  /// True when everything is unpacked.
  bool check(lzma_ret code, bool at_end) const {
    switch (code) {
      case LZMA_STREAM_END:
        return true;
      case LZMA_OK:
        return false;
      case LZMA_BUF_ERROR:
        if (at_end) {
          raw_.refuse_torn();
        }
        return false;
      case LZMA_MEM_ERROR:
        throw std::bad_alloc();
      case LZMA_MEMLIMIT_ERROR:
        throw DataError(
            {.what = "needs too much memory to unpack",
             .where = raw_.name(),
             .values = fmt::format("at most {} MiB", memory_limit >> 20),
             .remedy = "unpack it with xz, or pack it with xz -9 or less"});
      default:
        raw_.refuse("is broken xz data");
    }
  }

  lzma_stream state_ = LZMA_STREAM_INIT;
  bool ended_ = false;
};

} // namespace

std::unique_ptr<ByteStream> unpack_xz(RawInput raw) {
  return std::make_unique<XzStream>(std::move(raw));
}

} // namespace cairn::data
