#include "kernels/cpu/neon.h"

#include "kernels/cpu/loops.h"

namespace cairn::kernels::cpu {

const Table neon_table = table_for<Neon<false>>("neon");

} // namespace cairn::kernels::cpu
