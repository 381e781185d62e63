#include "kernels/internal/cuda/join_heads.h"

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/joined_pieces.cuh"

#include <algorithm>

namespace cairn::kernels::cuda {
namespace {

constexpr int most_threads = 512;

/// Tokens whose pieces are on the way at once.
template <bool turns>
constexpr int rows_at_once = turns ? 4 : 8;

/// Pieces of a row that a thread has: one, or the two that are turned together.
template <bool turns>
constexpr int pieces_of_thread = turns ? 2 : 1;

/// A row of the joined tensor as a token of a sequence.
struct Token {
  int batch;
  int token;

  __device__ void advance(int tokens) {
    const bool wraps = ++token == tokens;
    batch += wraps ? 1 : 0;
    token = wraps ? 0 : token;
  }
};

/// The number within its row of the first piece that a thread has. Its partner
/// is half a head further.
template <bool turns>
__device__ int first_piece(const JoinedPieces& shape, int number) {
  if constexpr (turns) {
    const int half = shape.size / 2;
    return number / half * shape.size + number % half;
  } else {
    return number;
  }
}

/// A block has consecutive rows; each thread takes pieces at the same places of
/// all of them. Calls `start(piece)` for the first of these, `fetch(i, row,
/// token)` for a few rows and then `write(i, row, token)` for these, and
/// `end(piece)`.
template <bool turns, class Start, class Fetch, class Write, class End>
__device__ void over_pieces(
    const JoinedPieces& shape,
    const Start& start,
    const Fetch& fetch,
    const Write& write,
    const End& end) {
  constexpr int at_once = rows_at_once<turns>;
  const int first = static_cast<int>(blockIdx.x) * shape.rows_of_block;
  const int last = min(first + shape.rows_of_block, shape.rows);
  const int count = shape.of_row / pieces_of_thread<turns>;
  for (int number = static_cast<int>(threadIdx.x); number < count;
       number += static_cast<int>(blockDim.x)) {
    const int piece = first_piece<turns>(shape, number);
    start(piece);
    Token fetched{first / shape.tokens, first % shape.tokens};
    Token written = fetched;
    for (int row = first; row < last; row += at_once) {
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        if (row + i < last) {
          fetch(i, row + i, fetched);
          fetched.advance(shape.tokens);
        }
      }
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        if (row + i < last) {
          write(i, row + i, written);
          written.advance(shape.tokens);
        }
      }
    }
    end(piece);
  }
}

/// Cosines and sines for two pieces that are turned together.
struct AngleBits {
  uint4 cosine;
  uint4 sine;
};

__device__ inline AngleBits angle_of(
    const AnglePieces& angles,
    const JoinedPieces& shape,
    const Place& place,
    int row) {
  const std::int64_t at =
      static_cast<std::int64_t>(row % angles.positions) * (shape.size / 2) +
      place.offset;
  return {angles.cosine[at], angles.sine[at]};
}

/// Turns two pieces. `direction` is -1 to turn back.
template <Element element>
__device__ void turn_both(
    const AngleBits& angle,
    float direction,
    Lane (&lanes)[2][piece_width]) {
  Lane cosine[piece_width];
  Lane sine[piece_width];
  load(&angle.cosine, element, 0, cosine);
  load(&angle.sine, element, 0, sine);
#pragma unroll
  for (int k = 0; k < piece_width; ++k) {
    const float x = lanes[0][k].value;
    const float y = lanes[1][k].value;
    const float turned = direction * sine[k].value;
    lanes[0][k].value = x * cosine[k].value - y * turned;
    lanes[1][k].value = y * cosine[k].value + x * turned;
  }
}

/// The pieces and angles of a few rows that a thread has fetched.
template <bool turns>
struct Fetched {
  uint4 pieces[rows_at_once<turns>][pieces_of_thread<turns>];
  AngleBits angles[turns ? rows_at_once<turns> : 1];
};

template <Element element, bool turns>
__global__ void __launch_bounds__(most_threads) join_kernel(
    JoinedPieces shape,
    Pieces<const uint4> query,
    Pieces<const uint4> key,
    Pieces<const uint4> value,
    AnglePieces angles,
    uint4* joined,
    float* parts) {
  constexpr int count = pieces_of_thread<turns>;
  Place place{};
  Pieces<const uint4> from{};
  const uint4* begin = nullptr;
  Lane sums[count][piece_width];
  Fetched<turns> fetched;
  int column = 0;
  over_pieces<turns>(
      shape,
      [&](int piece) {
        column = piece;
        place = place_of(shape, piece);
        from = chosen(place.kind, query, key, value);
        begin = from.data + place.head * from.head_step + place.offset;
#pragma unroll
        for (int p = 0; p < count; ++p) {
#pragma unroll
          for (int k = 0; k < piece_width; ++k) {
            sums[p][k].value = 0;
          }
        }
      },
      [&](int i, int row, const Token& token) {
        const uint4* const at = begin + token.batch * from.batch_step +
            token.token * from.token_step;
#pragma unroll
        for (int p = 0; p < count; ++p) {
          fetched.pieces[i][p] = at[p * place.partner];
        }
        if constexpr (turns) {
          if (place.kind != Place::value) {
            fetched.angles[i] = angle_of(angles, shape, place, row);
          }
        }
      },
      [&](int i, int row, const Token&) {
        Lane lanes[count][piece_width];
#pragma unroll
        for (int p = 0; p < count; ++p) {
          load(&fetched.pieces[i][p], element, 0, lanes[p]);
        }
        if constexpr (turns) {
          if (place.kind != Place::value) {
            turn_both<element>(fetched.angles[i], -1, lanes);
            round_to<element>(lanes[0]);
            round_to<element>(lanes[1]);
          }
        }
        const std::int64_t to =
            static_cast<std::int64_t>(row) * shape.of_row + column;
#pragma unroll
        for (int p = 0; p < count; ++p) {
#pragma unroll
          for (int k = 0; k < piece_width; ++k) {
            sums[p][k].value += lanes[p][k].value;
          }
          store(
              lanes[p],
              joined,
              element,
              (to + p * place.partner) * piece_width);
        }
      },
      [&](int piece) {
        if (parts == nullptr) {
          return;
        }
        const std::int64_t to =
            static_cast<std::int64_t>(blockIdx.x) * shape.of_row + piece;
#pragma unroll
        for (int p = 0; p < count; ++p) {
          store(
              sums[p],
              parts,
              Element::fp32,
              (to + p * place.partner) * piece_width);
        }
      });
}

template <Element element, bool turns>
__global__ void __launch_bounds__(most_threads) split_kernel(
    JoinedPieces shape,
    const uint4* joined,
    AnglePieces angles,
    Pieces<uint4> query,
    Pieces<uint4> key,
    Pieces<uint4> value) {
  constexpr int count = pieces_of_thread<turns>;
  Place place{};
  Pieces<uint4> to{};
  uint4* begin = nullptr;
  int column = 0;
  Fetched<turns> fetched;
  over_pieces<turns>(
      shape,
      [&](int piece) {
        column = piece;
        place = place_of(shape, piece);
        to = chosen(place.kind, query, key, value);
        begin = to.data + place.head * to.head_step + place.offset;
      },
      [&](int i, int row, const Token&) {
        const uint4* const at =
            joined + static_cast<std::int64_t>(row) * shape.of_row + column;
#pragma unroll
        for (int p = 0; p < count; ++p) {
          fetched.pieces[i][p] = at[p * place.partner];
        }
        if constexpr (turns) {
          if (place.kind != Place::value) {
            fetched.angles[i] = angle_of(angles, shape, place, row);
          }
        }
      },
      [&](int i, int, const Token& token) {
        Lane lanes[count][piece_width];
#pragma unroll
        for (int p = 0; p < count; ++p) {
          load(&fetched.pieces[i][p], element, 0, lanes[p]);
        }
        if constexpr (turns) {
          if (place.kind != Place::value) {
            turn_both<element>(fetched.angles[i], 1, lanes);
          }
        }
        uint4* const at =
            begin + token.batch * to.batch_step + token.token * to.token_step;
#pragma unroll
        for (int p = 0; p < count; ++p) {
          store(lanes[p], at + p * place.partner, element, 0);
        }
      },
      [](int) {});
}

/// A tensor [batch, tokens, heads, size] without gaps.
Pieces<uint4> whole_tensor(
    void* data,
    const JoinedShape& shape,
    std::int64_t heads) {
  const std::int64_t size = shape.size / piece_width;
  return {
      static_cast<uint4*>(data),
      shape.tokens * heads * size,
      heads * size,
      size};
}

bool in_pieces(const Heads& heads) {
  return aligned_for_eight(heads.data) && heads.batch_step % piece_width == 0 &&
      heads.token_step % piece_width == 0 && heads.head_step % piece_width == 0;
}

Grid grid_of(const JoinedShape& shape, bool turns) {
  return {
      static_cast<unsigned>(joined_parts(shape)),
      static_cast<unsigned>(threads_for(
          pieces_of(shape).of_row / (turns ? 2 : 1),
          most_threads))};
}

} // namespace

bool can_join_heads(
    const JoinedShape& shape,
    const HeadsOfAll& heads,
    const Angles& angles) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  const bool turns = angles.cosine != nullptr;
  return shape.size % (turns ? 2 * piece_width : piece_width) == 0 &&
      shape.element != Element::fp32 && shape.batch * shape.tokens < most &&
      in_pieces(heads.query) && in_pieces(heads.key) &&
      in_pieces(heads.value) && aligned_for_eight(angles.cosine) &&
      aligned_for_eight(angles.sine);
}

std::int64_t joined_parts(const JoinedShape& shape) {
  const std::int64_t of_block = rows_of_block(shape);
  return (shape.batch * shape.tokens + of_block - 1) / of_block;
}

const char* join_heads(
    const JoinedShape& shape,
    const HeadsOfAll& from,
    const Angles& angles,
    void* joined,
    float* parts,
    void* stream) {
  return with_form(shape, angles, [&](auto element, auto turns) {
    return launch(
        join_kernel<element(), turns()>,
        grid_of(shape, turns()),
        stream,
        pieces_of(shape),
        pieces_of(from.query),
        pieces_of(from.key),
        pieces_of(from.value),
        pieces_of(angles),
        static_cast<uint4*>(joined),
        parts);
  });
}

const char* split_heads(
    const JoinedShape& shape,
    const void* joined,
    const Angles& angles,
    void* query,
    void* key,
    void* value,
    void* stream) {
  return with_form(shape, angles, [&](auto element, auto turns) {
    return launch(
        split_kernel<element(), turns()>,
        grid_of(shape, turns()),
        stream,
        pieces_of(shape),
        static_cast<const uint4*>(joined),
        pieces_of(angles),
        whole_tensor(query, shape, shape.groups * shape.queries),
        whole_tensor(key, shape, shape.groups),
        whole_tensor(value, shape, shape.groups));
  });
}

} // namespace cairn::kernels::cuda
