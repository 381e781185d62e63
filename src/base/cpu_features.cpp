#include "base/internal/cpu.h"

#include <string_view>
#include <utility>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace cairn::inline base {

#if defined(__x86_64__)

CpuFeatures CpuFeatures::detect() {
  __builtin_cpu_init();
  CpuFeatures features;
  features.sse42 = __builtin_cpu_supports("sse4.2") != 0;
  features.avx2 = __builtin_cpu_supports("avx2") != 0;
  features.fma = __builtin_cpu_supports("fma") != 0;
  features.f16c = __builtin_cpu_supports("f16c") != 0;
  features.avx512f = __builtin_cpu_supports("avx512f") != 0;
  features.avx512bf16 = __builtin_cpu_supports("avx512bf16") != 0;
  features.avx512vnni = __builtin_cpu_supports("avx512vnni") != 0;
  features.amx_bf16 = __builtin_cpu_supports("amx-bf16") != 0;
  features.crc32c = features.sse42;
  return features;
}

#elif defined(__aarch64__)

CpuFeatures CpuFeatures::detect() {
  const unsigned long first = ::getauxval(AT_HWCAP);
  const unsigned long second = ::getauxval(AT_HWCAP2);
  CpuFeatures features;
  features.neon = (first & HWCAP_ASIMD) != 0;
  features.fp16 = (first & HWCAP_ASIMDHP) != 0;
  features.sve = (first & HWCAP_SVE) != 0;
  features.crc32c = (first & HWCAP_CRC32) != 0;
  features.pmull = (first & HWCAP_PMULL) != 0;
  features.bf16 = (second & HWCAP2_BF16) != 0;
  features.i8mm = (second & HWCAP2_I8MM) != 0;
  features.sve2 = (second & HWCAP2_SVE2) != 0;
  return features;
}

#else
#error "Cairn is for x86_64 and aarch64"
#endif

std::string to_string(const CpuFeatures& features) {
  const std::pair<std::string_view, bool> all[] = {
      {"sse4.2", features.sse42},
      {"avx2", features.avx2},
      {"fma", features.fma},
      {"f16c", features.f16c},
      {"avx512f", features.avx512f},
      {"avx512bf16", features.avx512bf16},
      {"avx512vnni", features.avx512vnni},
      {"amx-bf16", features.amx_bf16},
      {"neon", features.neon},
      {"fp16", features.fp16},
      {"bf16", features.bf16},
      {"i8mm", features.i8mm},
      {"sve", features.sve},
      {"sve2", features.sve2},
      {"pmull", features.pmull},
      {"crc32c", features.crc32c},
  };
  std::string text;
  for (const auto& [name, present] : all) {
    if (present) {
      text += text.empty() ? "" : " ";
      text += name;
    }
  }
  return text;
}

} // namespace cairn::base
