#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/base/file.h>
#include <cairn/base/mapped_file.h>
#include <cairn/checkpoints/lazy_tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

// The file format of Hugging Face's safetensors: a JSON header with names,
// types and shapes, then the elements.

namespace cairn::checkpoints {

class SafetensorsFile {
 public:
  /// Maps the file and checks its header: a CheckpointError if the file is torn
  /// or its header is impossible. Elements are read when asked for.
  explicit SafetensorsFile(const std::filesystem::path& path);

  struct Entry {
    at::ScalarType type = at::kFloat;
    std::vector<std::int64_t> shape;
    std::span<const std::byte> bytes;
    std::uint64_t at = 0; ///< offset of `bytes` in the file
  };
  const std::map<std::string, Entry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const {
    return metadata_;
  }

  /// Throws CheckpointError for an unknown name.
  const Entry& at(const std::string& name) const;
  /// A copy of the tensor.
  at::Tensor tensor(const std::string& name) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// A tensor that is read when asked for, in the file's own memory where
/// possible.
LazyTensor lazy_tensor(
    const std::shared_ptr<const SafetensorsFile>& file,
    const std::string& name);

/// Writes a safetensors file: first the list of its tensors, then their
/// elements in that order. The file gets its name at commit(), when it is
/// complete.
class SafetensorsWriter {
 public:
  struct Entry {
    std::string name;
    at::ScalarType type = at::kFloat;
    std::vector<std::int64_t> shape;
  };

  SafetensorsWriter(
      const std::filesystem::path& path,
      const std::vector<Entry>& entries,
      const std::map<std::string, std::string>& metadata = {});

  /// Writes the next bytes of the elements, in portions of any size.
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  AtomicFile file_;
  std::uint64_t missing_ = 0;
};

/// Writes a file of tensors in memory.
void write_safetensors(
    const std::filesystem::path& path,
    const std::map<std::string, at::Tensor>& tensors,
    const std::map<std::string, std::string>& metadata = {});

} // namespace cairn::checkpoints
