#pragma once

#include "checkpoint/native/manifest.h"

#include <cairn/checkpoint/safetensors.h>
#include <cairn/io/file_stream.h>

#include <filesystem>
#include <vector>

namespace cairn::checkpoints {

/// Notes what slices there will be, without their values.
class SlicePlan final : public Sink {
 public:
  void put(const TensorSlice& slice) override;
  const std::vector<WrittenFile::Slice>& slices() const { return slices_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::vector<WrittenFile::Slice> slices_;
  std::uint64_t bytes_ = 0;
};

/// How a slice shows in its safetensors file: one that is a whole tensor under
/// the tensor's name, another one flat, under "NAME[BEGIN:END]".
SafetensorsWriter::Entry safetensors_entry(const WrittenFile::Slice& slice);

/// One writer's safetensors file, streamed: the plan first, then the values in
/// the plan's order.
class SliceFile final : public Sink {
 public:
  SliceFile(
      const std::filesystem::path& path,
      std::vector<WrittenFile::Slice> plan);

  /// Values may be on any device.
  void put(const TensorSlice& slice) override;
  /// A whole tensor, a portion at a time.
  void put(const std::string& name, const LazyTensor& tensor);
  /// All of it is on the disk.
  WrittenFile finish();

 private:
  struct Planned;
  SliceFile(const std::filesystem::path& path, Planned planned);
  static Planned placed(
      std::vector<WrittenFile::Slice> slices,
      const std::filesystem::path& path);

  /// The next planned slice, if it is that one.
  StoredSlice& next(
      const std::string& name,
      at::ScalarType type,
      std::int64_t begin,
      std::int64_t end);

  WrittenFile written_;
  io::FileStream stream_;
  std::size_t next_ = 0;
};

} // namespace cairn::checkpoints
