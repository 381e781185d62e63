#include "kernels/internal/cpu/decoder_rows.h"

namespace cairn::kernels::cpu {

std::vector<const DecoderTable*> runnable_decoder_tables() {
  std::vector<const DecoderTable*> tables{&portable_decoder_table};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c")) {
    tables.push_back(&avx2_decoder_table);
  }
  if (__builtin_cpu_supports("avx512f")) {
    tables.push_back(&avx512_decoder_table);
  }
#elif defined(__aarch64__)
  tables.push_back(&neon_decoder_table); // every aarch64 CPU has it
#endif
  return tables;
}

const DecoderTable& decoder_table() {
  static const DecoderTable& best = *runnable_decoder_tables().back();
  return best;
}

} // namespace cairn::kernels::cpu
