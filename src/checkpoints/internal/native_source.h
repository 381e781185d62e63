#pragma once

#include "checkpoints/internal/manifest.h"
#include "checkpoints/native/box_runs.h"
#include "checkpoints/native/read_stretches.h"
#include "checkpoints/native/stored_file.h"

#include <cairn/checkpoints/lazy_tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// A checkpoint's tensors. Only the wanted blocks are read, and each is
/// compared with its checksum once. A file is opened when a tensor in it is
/// first read. One caller at a time; the blocks of a call are spread over
/// threads.
class NativeSource final : public Source {
 public:
  struct Options {
    /// Number of processes on this machine that read now, each its own part and
    /// only once. Where they share nothing, data that is not in the page cache
    /// is read past it. 0: unknown, always read through the cache.
    int readers = 0;
  };

  /// Reads the manifest and looks at all files. Throws DamagedCheckpoint for
  /// files that are missing or of another size; read() throws it for altered
  /// ones.
  NativeSource(const std::filesystem::path& folder, const Options& options);
  explicit NativeSource(const std::filesystem::path& folder)
      : NativeSource(folder, Options{}) {}
  /// Takes a manifest that another rank has read; check_files() is that rank's
  /// to call.
  NativeSource(
      std::filesystem::path folder,
      Manifest manifest,
      const Options& options);

  const Manifest& manifest() const { return manifest_; }

  bool contains(const std::string& name) const override;
  std::vector<std::int64_t> shape(const std::string& name) const override;
  at::ScalarType type(const std::string& name) const override;
  using Source::read;
  void read(const std::vector<SliceToRead>& slices) const override;

  /// Bytes of the files that were checked so far.
  std::uint64_t bytes_checked() const { return bytes_checked_; }
  /// Number of files that were opened so far.
  std::size_t files_opened() const { return files_.size(); }

 private:
  /// Slices of one box, sorted by their first element.
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
  const StoredFile& file(std::size_t number) const;
  /// Some bytes of a block, and where they go.
  struct Piece {
    const Tensor* tensor = nullptr;
    const StoredSlice* slice = nullptr;
    std::size_t block = 0;
    std::size_t from = 0; ///< offset in the block
    std::span<std::byte> into;
  };
  /// The pieces of one block.
  struct Block {
    std::span<const Piece> pieces;
    std::uint64_t at = 0; ///< offset in the file
    std::size_t size = 0;
  };
  /// Blocks that lie near each other in a file and are read at once, so that
  /// small tensors are not read one by one.
  struct Batches {
    std::vector<std::span<const Block>> blocks;
    std::vector<FileStretch> stretches; ///< one for each batch
  };
  void plan(const SliceToRead& slice, std::vector<Piece>& pieces) const;
  void plan_stretch(
      const Tensor& tensor,
      const StoredSlice& slice,
      std::int64_t from, ///< element, in the slice
      std::span<std::byte> into,
      std::vector<Piece>& pieces) const;
  static std::vector<Block> blocks_of(std::vector<Piece>& pieces);
  Batches batches_of(const std::vector<Block>& blocks) const;
  /// True when the readers of this machine want different parts.
  bool share_nothing(const std::vector<FileStretch>& stretches) const;
  void copy(std::vector<Piece>& pieces) const;
  void copy_block(const Block& block, std::span<const std::byte> bytes) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  Options options_;
  mutable std::map<std::size_t, StoredFile> files_; ///< open, by number
  std::map<std::string, Tensor> tensors_;
  mutable std::map<const StoredSlice*, std::vector<char>> checked_;
  mutable std::atomic<std::uint64_t> bytes_checked_ = 0;
};

/// A tensor that is read when asked for, only the wanted rows.
LazyTensor lazy_tensor(
    const std::shared_ptr<const NativeSource>& source,
    const std::string& name);

} // namespace cairn::checkpoints
