#include "kernels/cpu/loops.h"

namespace cairn::kernels::cpu {

const Table portable_table = table_for<Scalar>("portable");

} // namespace cairn::kernels::cpu
