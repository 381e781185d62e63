#pragma once

#include <cairn/corpus/download.h>

#include "corpus/download_part.h"
#include "corpus/http_get.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace cairn::corpus {

/// Thrown by a PartSink: the server's answer does not fit what we have or look
/// for.
struct Unfit {
  HttpResult result;
  bool start_over;
};

/// Writes one answer into the part.
class PartSink : public HttpSink {
 public:
  PartSink(
      DownloadPart& part,
      const DownloadRequest& request,
      std::string address,
      DownloadWatcher& watcher);

  void begin(const HttpHead& head) override;
  void write(std::span<const char> bytes) override;

  std::uint64_t resumed_from() const { return resumed_from_; }
  bool complete() const { return !size_ || part_.size() == *size_; }

 private:
  void check_fits(const HttpHead& head) const;

  DownloadPart& part_;
  const DownloadRequest& request_;
  std::string address_;
  DownloadWatcher& watcher_;
  std::optional<std::uint64_t> total_; ///< as this answer says
  std::optional<std::uint64_t> size_;  ///< of the file, by what we know
  std::uint64_t resumed_from_ = 0;
};

} // namespace cairn::corpus
