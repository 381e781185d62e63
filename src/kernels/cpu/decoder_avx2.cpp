#include "kernels/cpu/avx2.h"
#include "kernels/cpu/decoder_loops.h"

namespace cairn::kernels::cpu {

const DecoderTable avx2_decoder_table = decoder_table_for<Avx2>("avx2");

} // namespace cairn::kernels::cpu
