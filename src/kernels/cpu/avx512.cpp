#include "kernels/cpu/avx512.h"
#include "kernels/cpu/loops.h"

namespace cairn::kernels::cpu {

const Table avx512_table = table_for<Avx512>("avx512");

} // namespace cairn::kernels::cpu
