#pragma once

#include <cairn/checkpoints/slices.h>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// manifest.json in a checkpoint's folder: the content of the checkpoint and its
// places, as plain data. docs/checkpoint-format.md describes it for other
// programs.

namespace cairn::checkpoints {

constexpr std::string_view manifest_name = "manifest.json";

/// Bytes of one checksum: a reader of a part of a tensor checks only the blocks
/// of that part.
constexpr std::size_t checksum_block = std::size_t{1} << 20;

struct StoredSlice {
  std::size_t file = 0; ///< index in Manifest::files
  Box box;
  std::int64_t begin = 0; ///< first element, in the box
  std::int64_t end = 0;
  std::uint64_t at = 0; ///< offset of the first byte in the file
  std::vector<std::uint32_t> crc32c;
};

struct ManifestTensor {
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> shape;
  std::vector<StoredSlice> slices;
};

struct ManifestFile {
  std::string name;
  std::uint64_t bytes = 0;
};

struct Manifest {
  /// False for one that was read and, as version 1 of the format, has no
  /// checksum over itself.
  bool has_checksum = true;
  std::string tag;
  std::int64_t step = 0;     ///< updates of the weights
  std::int64_t saved_at = 0; ///< nanoseconds since 1970
  std::vector<ManifestFile> files;
  std::map<std::string, ManifestTensor> tensors;
  /// Other names of parameters: {name, the name it is saved under}.
  std::vector<std::pair<std::string, std::string>> ties;
  /// State of the engine besides tensors; see TrainingState.
  nlohmann::json state = nlohmann::json::object();
  nlohmann::json config = nlohmann::json::object(); ///< the run's
};

/// The part of a manifest about one file, as the file's writer tells it.
struct WrittenFile {
  ManifestFile file;
  struct Slice {
    std::string name;
    at::ScalarType type = at::kFloat;
    std::vector<std::int64_t> shape;
    StoredSlice stored; ///< `file` is not set yet
  };
  std::vector<Slice> slices;
};

/// Adds a file. Throws CheckpointError where writers contradict each other.
void add_file(Manifest& manifest, const WrittenFile& written);

std::string to_text(const Manifest& manifest);
std::string to_text(const WrittenFile& written);
WrittenFile parse_written_file(std::string_view text);

/// Reads folder/manifest.json and checks everything in it but the files
/// themselves. Throws DamagedCheckpoint for anything impossible.
Manifest read_manifest(const std::filesystem::path& folder);
/// The two halves of read_manifest(), for ranks that are sent the text by the
/// rank that has read it.
std::string read_manifest_text(const std::filesystem::path& folder);
Manifest manifest_from_text(
    std::string_view text,
    const std::filesystem::path& folder);

/// Throws DamagedCheckpoint unless all files of the checkpoint are there, with
/// the sizes that were written. Opens none of them.
void check_files(const Manifest& manifest, const std::filesystem::path& folder);
/// Throws DamagedCheckpoint unless the file has the size that was written.
void check_size(
    const ManifestFile& file,
    std::uint64_t bytes,
    const std::filesystem::path& folder);

} // namespace cairn::checkpoints
