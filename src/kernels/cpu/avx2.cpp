#include "kernels/cpu/avx2.h"
#include "kernels/cpu/loops.h"

namespace cairn::kernels::cpu {

const Table avx2_table = table_for<Avx2>("avx2");

} // namespace cairn::kernels::cpu
