#include "kernels/internal/cuda/join_fp8.h"

#include "kernels/cuda/fp8_squares.cuh"
#include "kernels/cuda/joined_pieces.cuh"

namespace cairn::kernels::cuda {
namespace {

/// The joined tensor as a matrix, read from its three parts.
template <Element element, bool turns>
struct JoinedHeads {
  JoinedPieces shape;
  Pieces<const uint4> query;
  Pieces<const uint4> key;
  Pieces<const uint4> value;
  AnglePieces angles;

  __device__ void operator()(
      std::int64_t row,
      std::int64_t column,
      Lane (&lanes)[piece_width]) const {
    const Place place = place_of(shape, static_cast<int>(column) / piece_width);
    const Pieces<const uint4> from = chosen(place.kind, query, key, value);
    const int token = static_cast<int>(row);
    const uint4* const at = from.data + place.head * from.head_step +
        place.offset + token / shape.tokens * from.batch_step +
        token % shape.tokens * from.token_step;
    load(at, element, 0, lanes);
    if (turns && place.kind != Place::value) {
      const uint4 partner = at[place.partner];
      turn<element>(angles, shape, place, token, -1, partner, lanes);
      round_to<element>(lanes);
    }
  }
};

} // namespace

const char* join_heads_to_fp8(
    const JoinedShape& shape,
    const HeadsOfAll& from,
    const Angles& angles,
    const Fp8Target& target,
    void* stream) {
  return with_form(shape, angles, [&](auto element, auto turns) {
    const JoinedPieces pieces = pieces_of(shape);
    return fp8_squares::round_squares(
        pieces.rows,
        pieces.of_row * piece_width,
        JoinedHeads<element(), turns()>{
            pieces,
            pieces_of(from.query),
            pieces_of(from.key),
            pieces_of(from.value),
            pieces_of(angles)},
        nullptr,
        0,
        target,
        stream);
  });
}

} // namespace cairn::kernels::cuda
