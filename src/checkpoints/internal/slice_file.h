#pragma once

#include "checkpoints/internal/manifest.h"
#include "io/internal/file_stream.h"

#include <cairn/checkpoints/safetensors.h>

#include <filesystem>
#include <vector>

namespace cairn::checkpoints {

/// Notes which slices there will be, without their values.
class SlicePlan final : public Sink {
 public:
  void put(const TensorSlice& slice) override;
  const std::vector<WrittenFile::Slice>& slices() const { return slices_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::vector<WrittenFile::Slice> slices_;
  std::uint64_t bytes_ = 0;
};

/// The entry of a slice in its safetensors file. A whole tensor has its own
/// name and shape, a whole box is called "NAME[at I, J, …]" after the place of
/// its first element, and any other slice is flat, with "[BEGIN:END]" behind
/// the name.
SafetensorsWriter::Entry safetensors_entry(const WrittenFile::Slice& slice);

/// The first bytes of the safetensors file at `path` with these slices in this
/// order.
std::string slice_file_header(
    const std::vector<WrittenFile::Slice>& slices,
    const std::filesystem::path& path);

/// A writer's safetensors file, which is streamed: the plan first, then the
/// values in the plan's order.
class SliceFile final : public Sink {
 public:
  SliceFile(
      const std::filesystem::path& path,
      std::vector<WrittenFile::Slice> plan);

  /// Writes the next slice of the plan. Values may be on any device.
  void put(const TensorSlice& slice) override;
  /// Writes a whole tensor, a portion at a time.
  void put(const std::string& name, const LazyTensor& tensor);
  /// Finishes the file; all of it is on the disk then.
  WrittenFile finish();

 private:
  struct Planned;
  SliceFile(const std::filesystem::path& path, Planned planned);
  static Planned placed(
      std::vector<WrittenFile::Slice> slices,
      const std::filesystem::path& path);

  /// The next planned slice; an error if the plan has another one.
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
