#pragma once

#include <cairn/config/zero_config.h>
#include <cairn/io/io_queue.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace cairn::io {

/// Findings about a folder for the NVMe tier.
struct Preflight {
  std::filesystem::path folder;
  std::uint64_t needed_bytes = 0;
  std::uint64_t free_bytes = 0;
  EngineKind engine = EngineKind::uring;
  std::string why_not_uring; ///< empty with io_uring
  Access access = Access::direct;
  std::uint64_t probe_bytes = 0;
  double write_rate = 0; ///< bytes per second
  double read_rate = 0;
};

/// Checks, before training, that the folder exists, is writable and has room
/// for `needed_bytes` (of all ranks that store there), and measures its speed.
/// The probe writes and reads up to `probe_bytes`, less if there is little
/// room. Throws ConfigError with the path, the numbers and what to do.
Preflight check_nvme_folder(
    const std::filesystem::path& folder,
    std::uint64_t needed_bytes,
    const config::AioConfig& config,
    std::uint64_t probe_bytes = 64 << 20);

/// `/mnt/nvme: 120 GB needed, 1.80 TB free; io_uring, direct; writes 2.60 GB/s,
/// reads 3.10 GB/s (probe of 67.1 MB)`
std::string to_string(const Preflight& preflight);

} // namespace cairn::io
