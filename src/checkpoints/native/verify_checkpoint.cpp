#include "checkpoints/internal/verify_checkpoint.h"

#include "base/internal/crc32c.h"
#include "checkpoints/internal/damaged_checkpoint.h"
#include "checkpoints/internal/manifest.h"
#include "checkpoints/internal/slice_file.h"
#include "checkpoints/native/manifest_counts.h"
#include "checkpoints/native/slice_cover.h"

#include <cairn/base/mapped_file.h>
#include <cairn/checkpoints/safetensors.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;

class Verifier {
 public:
  Verifier(
      const fs::path& folder,
      const std::function<void(std::uint64_t)>& advance)
      : folder_(folder), advance_(advance) {}

  VerifyReport verify() {
    try {
      manifest_ = read_manifest(folder_);
    } catch (const CheckpointError& error) {
      fault(error.what());
      return std::move(report_);
    }
    report_.manifest_checked = manifest_.has_checksum;
    if (!manifest_.has_checksum) {
      if (const auto doubt = doubt_of_counts(manifest_); !doubt.empty()) {
        report_.doubts.push_back(fmt::format(
            "{}: {}; a run may save that, and without a checksum of the "
            "manifest nobody can tell whether it was altered",
            (folder_ / manifest_name).string(),
            doubt));
      }
    }
    report_.step = manifest_.step;
    report_.files = manifest_.files.size();
    report_.tensors = manifest_.tensors.size();
    sort_slices();
    for (std::size_t i = 0; i < manifest_.files.size(); ++i) {
      try {
        verify_file(i);
      } catch (const Error& error) {
        fault(error.what());
      }
    }
    for (const auto& [name, tensor] : manifest_.tensors) {
      if (std::string what = fault_of_cover(tensor); !what.empty()) {
        fault(fmt::format("{}: {}", name, what));
      }
    }
    for (const auto& [name, saved] : manifest_.ties) {
      if (!manifest_.tensors.contains("weight/" + saved)) {
        fault(fmt::format("{}: tied to {}, which is missing", name, saved));
      }
    }
    look_for_strangers();
    return std::move(report_);
  }

 private:
  void fault(std::string what) { report_.faults.push_back(std::move(what)); }

  void sort_slices() {
    by_file_.resize(manifest_.files.size());
    for (const auto& [name, tensor] : manifest_.tensors) {
      for (const StoredSlice& slice : tensor.slices) {
        by_file_[slice.file].push_back(
            {.name = name,
             .type = tensor.type,
             .shape = tensor.shape,
             .stored = slice});
      }
    }
    for (auto& slices : by_file_) {
      // Slices are sorted into the order in which they are read from the disk.
      std::ranges::sort(slices, {}, [](const WrittenFile::Slice& slice) {
        return slice.stored.at;
      });
    }
  }

  void verify_file(std::size_t number) {
    const ManifestFile& listed = manifest_.files[number];
    const fs::path path = folder_ / listed.name;
    std::error_code error;
    if (!fs::is_regular_file(path, error)) {
      fault(fmt::format("{}: the file is missing", path.string()));
      return;
    }
    const MappedFile file(path, MappedFile::Advice::sequential);
    if (file.bytes().size() != listed.bytes) {
      fault(fmt::format(
          "{}: {} bytes, {} were written",
          path.string(),
          file.bytes().size(),
          listed.bytes));
      return;
    }
    const std::size_t before = report_.faults.size();
    try {
      verify_header(path, number);
      if (report_.faults.size() == before && manifest_.has_checksum) {
        verify_header_bytes(path, file, number);
      }
    } catch (const CheckpointError& problem) {
      fault(problem.what());
    }
    for (const WrittenFile::Slice& slice : by_file_[number]) {
      verify_checksums(path, file, slice);
    }
  }

  void verify_header(const fs::path& path, std::size_t number) {
    const SafetensorsFile header(path);
    std::set<std::string> known;
    for (const WrittenFile::Slice& slice : by_file_[number]) {
      const SafetensorsWriter::Entry wanted = safetensors_entry(slice);
      known.insert(wanted.name);
      const auto found = header.entries().find(wanted.name);
      if (found == header.entries().end()) {
        fault(fmt::format(
            "{}: the manifest has \"{}\", the file has not",
            path.string(),
            wanted.name));
      } else if (
          found->second.type != wanted.type ||
          found->second.shape != wanted.shape ||
          (found->second.at != slice.stored.at &&
           !found->second.bytes.empty())) {
        fault(fmt::format(
            "{}: \"{}\" has another type, shape or place than in the manifest",
            path.string(),
            wanted.name));
      }
    }
    for (const auto& [name, entry] : header.entries()) {
      if (!known.contains(name)) {
        fault(fmt::format(
            "{}: the file has \"{}\", the manifest has not",
            path.string(),
            name));
      }
    }
  }

  /// Compares the header with the one that was written, byte by byte: with it
  /// every byte of the file is held against something. Manifests without a
  /// checksum are older than the rule.
  void verify_header_bytes(
      const fs::path& path,
      const MappedFile& file,
      std::size_t number) {
    const std::string header = slice_file_header(by_file_[number], path);
    const auto written = std::as_bytes(std::span(header));
    if (file.bytes().size() < written.size() ||
        !std::ranges::equal(file.bytes().first(written.size()), written)) {
      fault(fmt::format("{}: the header was altered", path.string()));
    }
  }

  void verify_checksums(
      const fs::path& path,
      const MappedFile& file,
      const WrittenFile::Slice& slice) {
    const auto bytes =
        static_cast<std::size_t>(slice.stored.end - slice.stored.begin) *
        c10::elementSize(slice.type);
    auto left = file.bytes().subspan(slice.stored.at, bytes);
    std::uint64_t at = slice.stored.at;
    for (const std::uint32_t sum : slice.stored.crc32c) {
      const auto block = left.first(std::min(left.size(), checksum_block));
      if (crc32c(block) != sum) {
        fault(fmt::format(
            "{}: bytes {} to {} were altered ({})",
            path.string(),
            at,
            at + block.size(),
            slice.name));
      }
      at += block.size();
      left = left.subspan(block.size());
      if (advance_) {
        advance_(block.size());
      }
    }
    report_.bytes += bytes;
  }

  void look_for_strangers() {
    std::set<std::string> known{std::string(manifest_name)};
    for (const ManifestFile& file : manifest_.files) {
      if (!known.insert(file.name).second) {
        fault(fmt::format("{}: listed twice", file.name));
      }
    }
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_, error)) {
      if (!known.contains(entry.path().filename().string())) {
        fault(fmt::format(
            "{}: does not belong to the checkpoint",
            entry.path().string()));
      }
    }
  }

  fs::path folder_;
  const std::function<void(std::uint64_t)>& advance_;
  Manifest manifest_;
  std::vector<std::vector<WrittenFile::Slice>> by_file_;
  VerifyReport report_;
};

} // namespace

VerifyReport verify_native(
    const fs::path& folder,
    const std::function<void(std::uint64_t)>& advance) {
  return Verifier(folder, advance).verify();
}

} // namespace cairn::checkpoints
