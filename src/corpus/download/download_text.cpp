#include "corpus/internal/download.h"

#include <cairn/base/error.h>

#include "corpus/download/download_attempts.h"
#include "corpus/download/http_get.h"

#include <fmt/format.h>

#include <utility>

namespace cairn::corpus {

std::string download_text(
    const std::vector<std::string>& addresses,
    std::size_t limit,
    const DownloadOptions& options,
    const Logger& log) {
  class TextSink : public HttpSink {
   public:
    explicit TextSink(std::size_t limit) : limit_(limit) {}
    void begin(const HttpHead&) override {}
    void write(std::span<const char> bytes) override {
      if (bytes.size() > limit_ - text.size()) {
        throw DataError(
            {.what = "the server sends too much",
             .values = fmt::format("at most {} bytes are accepted", limit_)});
      }
      text.append(bytes.data(), bytes.size());
    }
    std::string text;

   private:
    std::size_t limit_;
  };
  std::string text;
  try_addresses(
      "a list of checksums",
      addresses,
      [] { return std::string(); },
      options,
      log,
      [&](const std::string& address) {
        TextSink sink(limit);
        Attempt attempt{
            .result = http_get(http_request(address, options), sink)};
        text = std::move(sink.text);
        return attempt;
      });
  return text;
}

} // namespace cairn::corpus
