#include "corpus/download/download_part.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include "base/internal/file_error.h"
#include "base/internal/sync_file.h"
#include "corpus/output/locked_file.h"

#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <utility>

namespace cairn::corpus {
namespace {

std::filesystem::path with_suffix(
    std::filesystem::path path,
    const char* suffix) {
  path += suffix;
  return path;
}

/// Reads the origin. If it cannot be read, it is empty and the part starts
/// over.
PartOrigin read_origin(const std::filesystem::path& path) {
  constexpr std::uint64_t limit = 64 << 10;
  try {
    const auto json = nlohmann::json::parse(read_file(path, limit));
    return {
        .address = json.at("address"),
        .validator = json.at("validator"),
        .total = json.at("total")};
  } catch (const nlohmann::json::exception&) {
    return {};
  } catch (const DataError&) {
    return {};
  }
}

} // namespace

DownloadPart::DownloadPart(std::filesystem::path path, bool with_sha1)
    : path_(std::move(path)),
      part_path_(with_suffix(path_, ".part")),
      origin_path_(with_suffix(path_, ".part.json")),
      fd_(open_locked(part_path_)),
      digests_(with_sha1) {
  origin_ = read_origin(origin_path_);
  if (origin_.address.empty()) {
    if (::ftruncate(fd_.get(), 0) != 0) {
      throw file_error("shorten", part_path_, errno);
    }
  } else {
    // This also leaves the file position where append() writes.
    size_ = digests_.update_from(fd_.get(), part_path_);
  }
}

void DownloadPart::start_over(PartOrigin origin) {
  // The file is emptied first: the new origin must never stand beside old
  // bytes.
  if (::ftruncate(fd_.get(), 0) != 0 || ::lseek(fd_.get(), 0, SEEK_SET) != 0) {
    throw file_error("shorten", part_path_, errno);
  }
  size_ = 0;
  digests_.reset();
  origin_ = std::move(origin);
  const nlohmann::json json{
      {"address", origin_.address},
      {"validator", origin_.validator},
      {"total", origin_.total}};
  // A header may hold any bytes. Bytes that are not UTF-8 are replaced; the
  // server will then not recognise the validator and will send the whole file.
  write_file_atomically(
      origin_path_,
      json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
          "\n");
}

void DownloadPart::append(std::span<const char> bytes) {
  write_all(fd_.get(), std::as_bytes(bytes), part_path_);
  digests_.update(bytes);
  size_ += bytes.size();
}

void DownloadPart::publish() {
  sync_file(fd_.get(), part_path_);
  if (::rename(part_path_.c_str(), path_.c_str()) != 0) {
    throw file_error("rename", part_path_, errno);
  }
  ::unlink(origin_path_.c_str());
  sync_folder_of(path_);
}

void DownloadPart::discard() {
  ::unlink(origin_path_.c_str());
  ::unlink(part_path_.c_str());
}

} // namespace cairn::corpus
