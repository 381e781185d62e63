#include "corpus/download/existing_file.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include "corpus/download/download_digests.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <utility>

namespace cairn::corpus {

DownloadReport check_existing(const DownloadRequest& request) {
  const UniqueFd fd = open_file(request.path, O_RDONLY);
  DownloadDigests digests(needs_sha1(request));
  DownloadReport report;
  report.size = digests.update_from(fd.get(), request.path);
  report.sha256 = digests.sha256();
  const auto refuse = [&](const char* wrong, std::string values) {
    throw DataError(
        {.what =
             fmt::format("the file that is there already has the {}", wrong),
         .where = request.path.string(),
         .values = std::move(values),
         .remedy = "remove it, or have it replaced with --force"});
  };
  if (request.size && *request.size != report.size) {
    refuse(
        "wrong size",
        fmt::format(
            "{} bytes, and should have {}",
            report.size,
            *request.size));
  }
  if (request.expected) {
    const auto found = digests.hex(request.expected->kind);
    if (found != request.expected->hex) {
      refuse("wrong checksum", mismatch(*request.expected, found));
    }
  }
  return report;
}

} // namespace cairn::corpus
