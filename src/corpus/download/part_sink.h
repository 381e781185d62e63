#pragma once

#include "corpus/download/download_part.h"
#include "corpus/download/http_get.h"
#include "corpus/internal/download.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace cairn::corpus {

/// Thrown by a PartSink when the server's answer does not fit the bytes we have
/// or the file we want.
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
  std::optional<std::uint64_t> total_; ///< according to this answer
  std::optional<std::uint64_t> size_;  ///< of the file, if known
  std::uint64_t resumed_from_ = 0;
};

} // namespace cairn::corpus
