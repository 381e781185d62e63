#include "kernels/cpu/loops.h"
#include "kernels/cpu/neon.h"

namespace cairn::kernels::cpu {

const Table neon_bf16_table = table_for<Neon<true>>("neon with bf16");

} // namespace cairn::kernels::cpu
