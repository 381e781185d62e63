#include "kernels/cpu/decoder_loops.h"
#include "kernels/cpu/neon.h"

namespace cairn::kernels::cpu {

const DecoderTable neon_decoder_table = decoder_table_for<Neon<false>>("neon");

} // namespace cairn::kernels::cpu
