#include "kernels/cpu/decoder_loops.h"

namespace cairn::kernels::cpu {

const DecoderTable portable_decoder_table =
    decoder_table_for<Scalar>("portable");

} // namespace cairn::kernels::cpu
