#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

// The file `.metadata` of torch.distributed.checkpoint: a pickle that says
// which tensors there are, and where each of their chunks lies.

namespace cairn::checkpoints::dcp {

/// The bytes of a file that hold one archive of torch.save.
struct Piece {
  std::string file; ///< a name in the checkpoint's folder
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// A box of a tensor, and its place.
struct Chunk {
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> size;
  Piece piece;
};

struct TensorInfo {
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> shape;
  /// Sorted by their beginnings. They tile the tensor; none is empty.
  std::vector<Chunk> chunks;
};

struct Metadata {
  std::map<std::string, TensorInfo, std::less<>> tensors;
  std::map<std::string, Piece, std::less<>> objects;
};

inline constexpr const char* metadata_name = ".metadata";

/// Reads the file. Throws CheckpointError for chunks that do not tile their
/// tensor, places that are missing, and names that lead out of the folder.
Metadata read_metadata(const std::filesystem::path& file);

} // namespace cairn::checkpoints::dcp
