#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace cairn::kernels::cuda {

/// The algorithms that were the fastest for shapes of products, kept in a file
/// for the next process: it then starts without trying them, and chooses the
/// same ones. An algorithm is kept as its number in the library's list of
/// proposals, so a file that is damaged can do no harm. Without a file, or with
/// one that cannot be read or written, nothing is remembered.
class ProductMemory {
 public:
  /// Reads the file. An empty path means no file.
  explicit ProductMemory(std::filesystem::path file);

  /// The number of the algorithm for a shape, which is a line of text.
  std::optional<int> find(const std::string& shape) const;

  /// Remembers it here, and at the end of the file.
  void add(const std::string& shape, int number);

 private:
  std::filesystem::path file_;
  std::map<std::string, int> numbers_;
};

/// The file for a GPU and a version of the library: in the folder
/// CAIRN_CACHE_DIR, or cairn in XDG_CACHE_HOME or ~/.cache. Empty where none of
/// them is known.
std::filesystem::path product_memory_file(
    const std::string& gpu,
    std::size_t library_version);

} // namespace cairn::kernels::cuda
