#include "corpus/internal/download.h"

#include <cairn/base/error.h>

#include "corpus/download/download_attempts.h"
#include "corpus/download/download_digests.h"
#include "corpus/download/download_part.h"
#include "corpus/download/existing_file.h"
#include "corpus/download/http_get.h"
#include "corpus/download/part_sink.h"
#include "corpus/internal/web_address.h"
#include "corpus/output/make_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace cairn::corpus {
namespace {

/// True when the part can be continued from this address. A part from another
/// address, or without a validator, is continued only if a checksum will show
/// whether its halves belong together.
bool can_go_on(
    const DownloadPart& part,
    const DownloadRequest& request,
    const std::string& address) {
  const bool same_file =
      part.origin().address == address && !part.origin().validator.empty();
  return part.size() > 0 && (same_file || request.expected.has_value());
}

/// Makes the attempts of download() and writes into the part.
class Fetch {
 public:
  Fetch(
      const DownloadRequest& request,
      const DownloadOptions& options,
      DownloadPart& part)
      : request_(request),
        options_(options),
        part_(part),
        furthest_(part.size()) {}

  Attempt operator()(const std::string& address) {
    HttpRequest http = http_request(address, options_);
    if (can_go_on(part_, request_, address)) {
      http.from = part_.size();
      if (part_.origin().address == address) {
        http.if_range = part_.origin().validator;
      }
    }
    DownloadWatcher silent;
    DownloadWatcher& watcher =
        options_.watcher != nullptr ? *options_.watcher : silent;
    PartSink sink(part_, request_, address, watcher);
    Attempt attempt;
    try {
      attempt.result = http_get(http, sink);
    } catch (const Unfit& unfit) {
      attempt.result = unfit.result;
      if (unfit.start_over) {
        part_.start_over({});
      }
    }
    // Bytes that were here before do not count as progress: a server that
    // always breaks off at the same place would be tried for ever.
    attempt.progressed = part_.size() > furthest_;
    furthest_ = std::max(furthest_, part_.size());
    resumed_from_ = sink.resumed_from();
    judge(attempt.result, http.from, sink);
    if (attempt.result.end == HttpEnd::complete) {
      watcher.complete();
    } else {
      watcher.interrupted();
    }
    return attempt;
  }

  std::uint64_t resumed_from() const { return resumed_from_; }

 private:
  void judge(HttpResult& result, std::uint64_t from, const PartSink& sink) {
    if (result.head.status == 416 && from > 0) {
      // The server has nothing after our bytes: either the file is complete, or
      // it is another file.
      const auto known = part_.origin().total;
      if (result.head.range_total == from && (known == 0 || known == from) &&
          request_.size.value_or(from) == from) {
        result.end = HttpEnd::complete;
        resumed_from_ = from;
      } else {
        result.end = HttpEnd::transient;
        part_.start_over({});
        return;
      }
    } else if (result.end == HttpEnd::complete && !sink.complete()) {
      result.end = HttpEnd::transient;
      result.trouble = "the connection ended before the file did";
    }
    if (result.end != HttpEnd::complete || !request_.expected) {
      return;
    }
    const auto found = part_.digests().hex(request_.expected->kind);
    if (found == request_.expected->hex) {
      return;
    }
    // The part may mix two files; then the whole file may still be right.
    result.end = resumed_from_ > 0 ? HttpEnd::transient : HttpEnd::refused;
    result.trouble = "wrong checksum: " + mismatch(*request_.expected, found);
    part_.start_over({});
  }

  const DownloadRequest& request_;
  const DownloadOptions& options_;
  DownloadPart& part_;
  std::uint64_t furthest_;
  std::uint64_t resumed_from_ = 0;
};

std::string by_hand(const DownloadRequest& request, const DownloadPart& part) {
  const auto kept = part.size() == 0
      ? std::string()
      : fmt::format(
            "\n{} bytes are kept; the same command goes on from there.",
            part.size());
  return fmt::format(
      "{}\nIf this machine has no network, fetch the file elsewhere, put it "
      "here as {} and run the same command again: it will be checked and used.",
      kept,
      request.path.string());
}

} // namespace

DownloadReport download(
    const DownloadRequest& request,
    const DownloadOptions& options,
    const Logger& log) {
  for (const auto& address : request.addresses) {
    check_address(address);
  }
  if (!request.replace && std::filesystem::exists(request.path)) {
    return check_existing(request);
  }
  make_folders(request.path.parent_path());
  DownloadPart part(request.path, needs_sha1(request));
  Fetch fetch(request, options, part);
  DownloadReport report;
  try {
    report.address = try_addresses(
        request.path.filename().string(),
        request.addresses,
        [&] { return by_hand(request, part); },
        options,
        log,
        std::ref(fetch));
  } catch (const Error&) {
    if (part.size() == 0) {
      part.discard();
    }
    throw;
  }
  report.size = part.size();
  report.sha256 = part.digests().sha256();
  report.resumed_from = fetch.resumed_from();
  part.publish();
  return report;
}

} // namespace cairn::corpus
