#include "kernels/internal/cpu/table.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace cairn::kernels::cpu {

bool multiplies_bf16() {
#if defined(__aarch64__)
  static const bool known = (::getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
  return known;
#else
  return __builtin_cpu_supports("avx512bf16");
#endif
}

std::vector<const Table*> runnable_tables() {
  std::vector<const Table*> tables{&portable_table};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c")) {
    tables.push_back(&avx2_table);
  }
  if (__builtin_cpu_supports("avx512f")) {
    tables.push_back(&avx512_table);
  }
#elif defined(__aarch64__)
  tables.push_back(&neon_table); // every aarch64 CPU has it
  if (multiplies_bf16()) {
    tables.push_back(&neon_bf16_table);
  }
#endif
  return tables;
}

const Table& table() {
  static const Table& best = *runnable_tables().back();
  return best;
}

} // namespace cairn::kernels::cpu
