#include "corpus/download/part_sink.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

namespace cairn::corpus {
namespace {

/// A strong ETag, else the date. A weak ETag ("W/…") does not promise the same
/// bytes.
std::string validator_of(const HttpHead& head) {
  return !head.etag.empty() && !head.etag.starts_with("W/")
      ? head.etag
      : head.last_modified;
}

void check_room(const std::filesystem::path& path, std::uint64_t bytes) {
  const auto folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code unknown;
  const auto space = std::filesystem::space(folder, unknown);
  if (!unknown && space.available < bytes) {
    throw DataError(
        {.what = "there is not enough room on the disk",
         .where = path.string(),
         .values = fmt::format(
             "{:.1f} MB to come, {:.1f} MB free",
             static_cast<double>(bytes) / 1e6,
             static_cast<double>(space.available) / 1e6),
         .remedy = "free some, or choose another folder"});
  }
}

} // namespace

PartSink::PartSink(
    DownloadPart& part,
    const DownloadRequest& request,
    std::string address,
    DownloadWatcher& watcher)
    : part_(part),
      request_(request),
      address_(std::move(address)),
      watcher_(watcher) {}

void PartSink::check_fits(const HttpHead& head) const {
  if (request_.size && total_ && *total_ != *request_.size) {
    throw Unfit{
        {.end = HttpEnd::refused,
         .head = head,
         .trouble = fmt::format(
             "sends {} bytes where the file has {}",
             *total_,
             *request_.size)},
        false};
  }
  const auto known = part_.origin().total;
  if (head.status == 206 &&
      (head.range_start != part_.size() ||
       (known != 0 && total_ && known != *total_))) {
    throw Unfit{
        {.end = HttpEnd::transient,
         .head = head,
         .trouble = "sends other bytes than those asked for"},
        true};
  }
}

void PartSink::begin(const HttpHead& head) {
  total_ = head.status == 206 ? head.range_total : head.length;
  check_fits(head);
  if (head.status != 206) {
    part_.start_over(
        {.address = address_,
         .validator = validator_of(head),
         .total = total_.value_or(0)});
  }
  resumed_from_ = part_.size();
  size_ = request_.size ? request_.size : total_;
  if (!size_ && part_.origin().total != 0) {
    size_ = part_.origin().total; // a range of "…/*"
  }
  if (total_ && *total_ > part_.size()) {
    check_room(request_.path, *total_ - part_.size());
  }
  watcher_.begin(part_.size(), total_.value_or(0));
}

void PartSink::write(std::span<const char> bytes) {
  if (size_ &&
      (*size_ < part_.size() || //
       bytes.size() > *size_ - part_.size())) {
    // If earlier bytes came from another answer, the whole file may still be
    // right.
    throw Unfit{
        {.end = resumed_from_ > 0 ? HttpEnd::transient : HttpEnd::refused,
         .trouble = fmt::format("sends more than the {} bytes", *size_)},
        true};
  }
  part_.append(bytes);
  watcher_.advance(bytes.size());
}

} // namespace cairn::corpus
