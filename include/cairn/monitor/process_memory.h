#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace cairn::monitor {

/// The memory of this process, in bytes, as the kernel counts it.
struct ProcessMemory {
  std::uint64_t resident = 0;
  std::uint64_t peak_resident = 0;
  /// With its share of what several processes map: this adds up over ranks,
  /// where `resident` counts libraries and shared buffers again for each. None
  /// where the kernel does not tell (before 4.14, or with a hardened /proc).
  std::optional<std::uint64_t> proportional{};
  /// Pages that nobody else maps: what ending the process would free.
  std::optional<std::uint64_t> own{};
  /// What may be used here at most: the control group's limit, or the
  /// machine's memory.
  std::uint64_t limit = 0;

  /// `root` stands for `/`, so that tests can bring their own /proc and /sys.
  static ProcessMemory read(const std::filesystem::path& root = "/");
};

/// Bytes of resident pages that belong to no file: what the process has
/// allocated and touched. Cheap enough for every pass of a training.
std::uint64_t anonymous_resident(const std::filesystem::path& root = "/");

/// `1.20 GB resident (peak 3.40 GB) of 25.2 GB`
std::string to_string(const ProcessMemory& memory);

} // namespace cairn::monitor
