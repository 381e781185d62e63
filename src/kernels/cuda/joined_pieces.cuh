#pragma once

#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/internal/cuda/join_heads.h"

#include <algorithm>
#include <type_traits>

namespace cairn::kernels::cuda {

// Queries, keys and values, joined and apart, in pieces of 16 bytes.

inline constexpr int piece_width = 8; ///< elements of a piece

/// The joined tensor in pieces.
struct JoinedPieces {
  int rows; ///< batch times tokens
  int tokens;
  int queries;
  int size;   ///< pieces of a head
  int of_row; ///< pieces of a row
  int rows_of_block;
};

/// Tables of angles in pieces.
struct AnglePieces {
  const uint4* cosine;
  const uint4* sine;
  int positions;
};

/// One of queries, keys and values, in pieces.
template <class Piece>
struct Pieces {
  Piece* data;
  std::int64_t batch_step;
  std::int64_t token_step;
  std::int64_t head_step;
};

/// The place of one piece of a joined row: the head that it belongs to.
struct Place {
  enum Kind { query, key, value } kind;
  int head;
  int offset;  ///< of the piece in its head
  int partner; ///< steps to the piece that is turned with it
};

__device__ inline Place place_of(const JoinedPieces& shape, int piece) {
  const int head = piece / shape.size;
  const int group = head / (shape.queries + 2);
  const int number = head % (shape.queries + 2);
  const int offset = piece % shape.size;
  const int half = shape.size / 2;
  const Place::Kind kind = number < shape.queries ? Place::query
      : number == shape.queries                   ? Place::key
                                                  : Place::value;
  return {
      kind,
      kind == Place::query ? group * shape.queries + number : group,
      offset,
      offset < half ? half : -half};
}

template <class Piece>
__device__ Pieces<Piece> chosen(
    Place::Kind kind,
    const Pieces<Piece>& query,
    const Pieces<Piece>& key,
    const Pieces<Piece>& value) {
  return kind == Place::query ? query : kind == Place::key ? key : value;
}

/// Turns a piece with its partner. `direction` is -1 to turn back.
template <Element element>
__device__ void turn(
    const AnglePieces& angles,
    const JoinedPieces& shape,
    const Place& place,
    int row,
    float direction,
    const uint4& partner_bits,
    Lane (&lanes)[piece_width]) {
  const int half = shape.size / 2;
  const int column = place.offset < half ? place.offset : place.offset - half;
  const std::int64_t angle =
      static_cast<std::int64_t>(row % angles.positions) * half + column;
  Lane partner[piece_width];
  Lane cosine[piece_width];
  Lane sine[piece_width];
  load(&partner_bits, element, 0, partner);
  load(&angles.cosine[angle], element, 0, cosine);
  load(&angles.sine[angle], element, 0, sine);
  // The first half goes to x c - y s, the second to y c + x s.
  const float sign = place.partner > 0 ? -direction : direction;
#pragma unroll
  for (int k = 0; k < piece_width; ++k) {
    lanes[k].value = lanes[k].value * cosine[k].value +
        sign * partner[k].value * sine[k].value;
  }
}

inline Pieces<const uint4> pieces_of(const Heads& heads) {
  return {
      static_cast<const uint4*>(heads.data),
      heads.batch_step / piece_width,
      heads.token_step / piece_width,
      heads.head_step / piece_width};
}

inline AnglePieces pieces_of(const Angles& angles) {
  return {
      static_cast<const uint4*>(angles.cosine),
      static_cast<const uint4*>(angles.sine),
      static_cast<int>(angles.positions)};
}

/// Rows of a block: about a thousand blocks.
inline std::int64_t rows_of_block(const JoinedShape& shape) {
  const std::int64_t rows = shape.batch * shape.tokens;
  constexpr std::int64_t blocks = 1024;
  return std::max<std::int64_t>((rows + blocks - 1) / blocks, 8);
}

inline JoinedPieces pieces_of(const JoinedShape& shape) {
  const std::int64_t size = shape.size / piece_width;
  return {
      static_cast<int>(shape.batch * shape.tokens),
      static_cast<int>(shape.tokens),
      static_cast<int>(shape.queries),
      static_cast<int>(size),
      static_cast<int>(shape.groups * (shape.queries + 2) * size),
      static_cast<int>(rows_of_block(shape))};
}

/// Calls `start` with the element type and with whether heads are turned, both
/// as constants of the compiler's.
template <class Start>
const char* with_form(
    const JoinedShape& shape,
    const Angles& angles,
    const Start& start) {
  if (shape.batch * shape.tokens <= 0 || shape.groups <= 0) {
    return nullptr;
  }
  const auto with_turns = [&](auto element) {
    return angles.cosine != nullptr ? start(element, std::true_type())
                                    : start(element, std::false_type());
  };
  using Half = std::integral_constant<Element, Element::fp16>;
  using Brain = std::integral_constant<Element, Element::bf16>;
  return shape.element == Element::bf16 ? with_turns(Brain())
                                        : with_turns(Half());
}

} // namespace cairn::kernels::cuda
