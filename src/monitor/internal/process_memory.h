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
  /// Resident memory in which pages shared with other processes count in
  /// proportion. These numbers add up over ranks, whereas `resident` counts
  /// libraries and shared buffers again for each rank. Empty if the kernel does
  /// not tell (before 4.14, or with a hardened /proc).
  std::optional<std::uint64_t> proportional{};
  /// Pages that no other process maps: the end of this process would free them.
  std::optional<std::uint64_t> own{};
  /// The most that may be used: the control group's limit, or the machine's
  /// memory.
  std::uint64_t limit = 0;

  /// Reads the values. `root` stands for `/`, so that tests can bring their own
  /// /proc and /sys.
  static ProcessMemory read(const std::filesystem::path& root = "/");
};

/// Bytes of resident pages that belong to no file: memory that the process has
/// allocated and touched. Cheap enough to call in every training step.
std::uint64_t anonymous_resident(const std::filesystem::path& root = "/");

/// `1.20 GB resident (peak 3.40 GB) of 25.2 GB`
std::string to_string(const ProcessMemory& memory);

} // namespace cairn::monitor
