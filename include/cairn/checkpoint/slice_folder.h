#pragma once

#include <cairn/base/mapped_file.h>
#include <cairn/checkpoint/slices.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// The simplest format that keeps the seam: per writer a file of raw values and
// a JSON list of what is in it.

namespace cairn::checkpoints {

/// `slices-RANK.bin` and `slices-RANK.json` in a folder.
class SliceFolderSink final : public Sink {
 public:
  SliceFolderSink(const std::filesystem::path& folder, int rank);
  ~SliceFolderSink() override;

  void put(const TensorSlice& slice) override;
  /// Makes both files durable and visible.
  void commit();

 private:
  struct Writer;
  std::unique_ptr<Writer> writer_;
};

class SliceFolderSource final : public Source {
 public:
  /// Opens the slices of `writers` ranks. Throws CheckpointError for files that
  /// are missing, torn or contradict each other.
  SliceFolderSource(const std::filesystem::path& folder, int writers);

  bool contains(const std::string& name) const override;
  std::vector<std::int64_t> shape(const std::string& name) const override;
  void read(const std::string& name, std::int64_t begin, at::Tensor& into)
      const override;

 private:
  struct Piece {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::size_t file = 0;
    std::uint64_t offset = 0;
  };
  struct Entry {
    std::vector<std::int64_t> shape;
    at::ScalarType type = at::kFloat;
    std::vector<Piece> pieces;
  };
  void add(const std::filesystem::path& list, std::size_t file);

  std::vector<MappedFile> files_;
  std::map<std::string, Entry> entries_;
};

} // namespace cairn::checkpoints
