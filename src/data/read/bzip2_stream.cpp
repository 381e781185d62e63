#include "data/read/unpacked_streams.h"

#include <bzlib.h>

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

namespace cairn::data {
namespace {

class Bzip2Stream : public RawStream {
 public:
  explicit Bzip2Stream(RawInput raw) : RawStream(std::move(raw)) { begin(); }
  ~Bzip2Stream() override { ::BZ2_bzDecompressEnd(&state_); }
  Bzip2Stream(const Bzip2Stream&) = delete;
  Bzip2Stream& operator=(const Bzip2Stream&) = delete;

  std::size_t read(std::span<char> out) override {
    if (out.empty() || ended_) {
      return 0;
    }
    const auto room = static_cast<unsigned>(std::min<std::size_t>(
        out.size(),
        std::numeric_limits<unsigned>::max()));
    char* to = out.data();
    unsigned left = room;
    while (left == room) {
      const auto bytes = raw_.available();
      state_.next_in = const_cast<char*>(bytes.data());
      state_.avail_in = static_cast<unsigned>(bytes.size());
      state_.next_out = to;
      state_.avail_out = left;
      const int code = ::BZ2_bzDecompress(&state_);
      raw_.consume(bytes.size() - state_.avail_in);
      to = state_.next_out;
      left = state_.avail_out;
      if (code == BZ_STREAM_END) {
        if (!another_member("BZh")) {
          ended_ = true;
          break;
        }
        ::BZ2_bzDecompressEnd(&state_);
        begin();
      } else if (code == BZ_MEM_ERROR) {
        throw std::bad_alloc();
      } else if (code != BZ_OK) {
        raw_.refuse("is broken bzip2 data");
      } else if (bytes.empty() && left == room) {
        raw_.refuse_torn();
      }
    }
    return room - left;
  }

 private:
  void begin() {
    state_ = {};
    if (::BZ2_bzDecompressInit(&state_, 0, 0) != BZ_OK) {
      throw std::bad_alloc();
    }
  }

  bz_stream state_{};
  bool ended_ = false;
};

} // namespace

std::unique_ptr<ByteStream> unpack_bzip2(RawInput raw) {
  return std::make_unique<Bzip2Stream>(std::move(raw));
}

} // namespace cairn::data
