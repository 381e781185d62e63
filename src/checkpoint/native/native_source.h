#pragma once

#include "checkpoint/native/box_runs.h"
#include "checkpoint/native/manifest.h"

#include <cairn/base/mapped_file.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// A checkpoint's tensors, mapped: only what is asked for is read, and each
/// block of it is held against its checksum once. One caller at a time; the
/// blocks of a call are shared out over threads.
class NativeSource final : public Source {
 public:
  /// Throws DamagedCheckpoint, here for files that are missing or of another
  /// size, later for altered ones.
  explicit NativeSource(const std::filesystem::path& folder);

  const Manifest& manifest() const { return manifest_; }

  bool contains(const std::string& name) const override;
  std::vector<std::int64_t> shape(const std::string& name) const override;
  at::ScalarType type(const std::string& name) const override;
  using Source::read;
  void read(const std::vector<SliceToRead>& slices) const override;

  /// Bytes of the files that were looked at so far.
  std::uint64_t bytes_checked() const { return bytes_checked_; }

 private:
  /// Slices of one box, by their first element.
  struct Pieces {
    BoxRuns runs;
    std::vector<const StoredSlice*> slices;
  };
  struct Tensor {
    const std::string* name = nullptr;
    const ManifestTensor* stored = nullptr;
    std::vector<Pieces> boxes;
  };

  const Tensor& at(const std::string& name) const;
  std::span<const std::byte> slice_bytes(
      const StoredSlice& slice,
      at::ScalarType type) const;
  /// Some bytes of a block, and where they go.
  struct Piece {
    const Tensor* tensor = nullptr;
    const StoredSlice* slice = nullptr;
    std::size_t block = 0;
    std::size_t from = 0; ///< in the block
    std::span<std::byte> into;
  };
  void plan(const SliceToRead& slice, std::vector<Piece>& pieces) const;
  void plan_stretch(
      const Tensor& tensor,
      const StoredSlice& slice,
      std::int64_t from, ///< element, in the slice
      std::span<std::byte> into,
      std::vector<Piece>& pieces) const;
  void copy(std::vector<Piece>& pieces) const;
  void copy_block(std::span<const Piece> pieces) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::vector<MappedFile> files_;
  std::map<std::string, Tensor> tensors_;
  mutable std::map<const StoredSlice*, std::vector<char>> checked_;
  mutable std::atomic<std::uint64_t> bytes_checked_ = 0;
};

} // namespace cairn::checkpoints
