#include "kernels/cuda/product_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace cairn::kernels::cuda {
namespace {

/// Far more lines than a training has shapes.
constexpr std::size_t most_lines = 10'000;
constexpr int most_number = 1000;

/// The folder that an environment variable names; empty if it is not set.
std::filesystem::path folder_in(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

} // namespace

ProductMemory::ProductMemory(std::filesystem::path file)
    : file_(std::move(file)) {
  std::ifstream from(file_);
  std::string line;
  for (std::size_t i = 0; i < most_lines && std::getline(from, line); ++i) {
    // "<number> <shape>"
    int number = 0;
    const char* const end = line.data() + line.size();
    const auto [rest, error] = std::from_chars(line.data(), end, number);
    if (error == std::errc() && rest != end && *rest == ' ' && number >= 0 &&
        number < most_number) {
      numbers_[std::string(rest + 1, end)] = number;
    }
  }
}

std::optional<int> ProductMemory::find(const std::string& shape) const {
  const auto found = numbers_.find(shape);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

void ProductMemory::add(const std::string& shape, int number) {
  numbers_[shape] = number;
  if (file_.empty() || numbers_.size() > most_lines) {
    return;
  }
  std::error_code ignored;
  std::filesystem::create_directories(file_.parent_path(), ignored);
  const int descriptor =
      ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    return;
  }
  // One write for a whole line: several processes may add lines at once. A line
  // that was cut short is passed over when the file is read.
  const std::string line = std::to_string(number) + " " + shape + "\n";
  [[maybe_unused]] const auto written =
      ::write(descriptor, line.data(), line.size());
  ::close(descriptor);
}

std::filesystem::path product_memory_file(
    const std::string& gpu,
    std::size_t library_version) {
  std::filesystem::path folder = folder_in("CAIRN_CACHE_DIR");
  if (folder.empty()) {
    folder = folder_in("XDG_CACHE_HOME");
    if (folder.empty()) {
      const std::filesystem::path home = folder_in("HOME");
      folder = home.empty() ? "" : home / ".cache";
    }
    folder = folder.empty() ? "" : folder / "cairn";
  }
  if (folder.empty()) {
    return {};
  }
  std::string name;
  for (const char c : gpu) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
        (c >= 'a' && c <= 'z');
    name += plain ? c : '-';
  }
  return folder / "products" /
      (name + "-cublaslt-" + std::to_string(library_version) + ".txt");
}

} // namespace cairn::kernels::cuda
