#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::inline base {

/// Instructions that this machine's CPU has and its kernel lets us use, found
/// at run time.
struct CpuFeatures {
  // x86_64
  bool sse42 = false;
  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool avx512f = false;
  bool avx512bf16 = false;
  bool avx512vnni = false;
  bool amx_bf16 = false;
  // aarch64
  bool neon = false;
  bool fp16 = false;
  bool bf16 = false;
  bool i8mm = false;
  bool sve = false;
  bool sve2 = false;
  bool pmull = false; ///< carry-less multiplication
  // both
  bool crc32c = false;

  static CpuFeatures detect();
  bool operator==(const CpuFeatures&) const = default;
};

/// The names of the features that are present, e.g. `neon bf16 sve crc32c`.
std::string to_string(const CpuFeatures& features);

/// The part of the machine that this process may use: limited by CPU affinity
/// and control group, not everything that is built in.
struct CpuInfo {
  std::string model; ///< e.g. `Neoverse-V1`
  CpuFeatures features;
  int logical_cpus = 0; ///< hardware threads
  int physical_cores = 0;
  std::uint64_t memory_bytes = 0;

  static CpuInfo detect();
};

/// The numbers of the logical CPUs this thread may run on, ascending.
std::vector<int> allowed_cpus();

} // namespace cairn::base
