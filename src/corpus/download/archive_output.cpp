#include "corpus/download/archive_output.h"

#include <cairn/base/error.h>

#include "corpus/output/make_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::corpus {
namespace {

/// A name from an archive, made safe for a message.
std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name.substr(0, 200)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return text + '"';
}

} // namespace

ArchiveOutput::ArchiveOutput(
    std::filesystem::path archive,
    std::filesystem::path folder,
    UnpackLimits limits)
    : archive_(std::move(archive)),
      folder_(std::move(folder)),
      limits_(limits) {}

void ArchiveOutput::refuse(std::string what, std::string values) const {
  throw DataError(
      {.what = std::move(what),
       .where = archive_.string(),
       .values = std::move(values)});
}

std::filesystem::path ArchiveOutput::inside(const std::string& name) const {
  const std::filesystem::path path(name);
  const bool climbs =
      std::any_of(path.begin(), path.end(), [](const auto& component) {
        return component == "..";
      });
  if (name.empty() || path.is_absolute() || climbs ||
      name.find('\0') != std::string::npos ||
      name.find('\\') != std::string::npos) {
    refuse("a member has a name that is not taken", quoted(name));
  }
  return folder_ / path.lexically_normal();
}

void ArchiveOutput::make_folder(const std::string& name) {
  make_folders(inside(name));
}

void ArchiveOutput::begin(const std::string& name) {
  if (files_.size() >= limits_.files) {
    refuse(fmt::format("holds more than {} files", limits_.files));
  }
  const auto path = inside(name);
  if (!path.has_filename() || path.filename() == ".") {
    refuse("a member has a name that is not taken", quoted(name));
  }
  make_folders(path.parent_path());
  file_.emplace(path);
  files_.push_back(path);
}

void ArchiveOutput::write(std::span<const char> bytes) {
  if (bytes.size() > limits_.bytes - bytes_) {
    refuse(fmt::format("unpacks to more than {} bytes", limits_.bytes));
  }
  bytes_ += bytes.size();
  file_->write(std::as_bytes(bytes));
}

void ArchiveOutput::finish() {
  file_->commit();
  file_.reset();
}

} // namespace cairn::corpus
