#include "kernels/cpu/avx512.h"
#include "kernels/cpu/decoder_loops.h"

namespace cairn::kernels::cpu {

const DecoderTable avx512_decoder_table = decoder_table_for<Avx512>("avx512");

} // namespace cairn::kernels::cpu
