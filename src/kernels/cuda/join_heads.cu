#include "kernels/internal/cuda/join_heads.h"

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/launch.cuh"

#include <algorithm>

namespace cairn::kernels::cuda {
namespace {

constexpr int width = 8; ///< elements of a piece
constexpr int most_threads = 512;
constexpr int rows_at_once = 4; ///< tokens of a block

/// One of queries, keys and values, in pieces.
struct Pieces {
  const uint4* data;
  std::int64_t batch_step;
  std::int64_t token_step;
  std::int64_t head_step;
};

struct JoinedPieces {
  int rows; ///< batch times tokens
  int tokens;
  int queries;
  int size;   ///< pieces of a head
  int of_row; ///< pieces of a row
};

/// Each thread takes pieces at the same place of a few rows.
__global__ void __launch_bounds__(most_threads) join_kernel(
    JoinedPieces shape,
    Pieces query,
    Pieces key,
    Pieces value,
    uint4* joined) {
  const int first = static_cast<int>(blockIdx.x) * rows_at_once;
  for (int piece = static_cast<int>(threadIdx.x); piece < shape.of_row;
       piece += static_cast<int>(blockDim.x)) {
    const int head = piece / shape.size;
    const int group = head / (shape.queries + 2);
    const int place = head % (shape.queries + 2);
    const bool is_query = place < shape.queries;
    const Pieces& from = is_query ? query
        : place == shape.queries  ? key
                                  : value;
    const std::int64_t offset = piece % shape.size +
        from.head_step * (is_query ? group * shape.queries + place : group);
    uint4 pieces[rows_at_once];
#pragma unroll
    for (int i = 0; i < rows_at_once; ++i) {
      const int row = first + i;
      if (row < shape.rows) {
        pieces[i] = from.data
                        [offset + row / shape.tokens * from.batch_step +
                         row % shape.tokens * from.token_step];
      }
    }
#pragma unroll
    for (int i = 0; i < rows_at_once; ++i) {
      const int row = first + i;
      if (row < shape.rows) {
        joined[static_cast<std::int64_t>(row) * shape.of_row + piece] =
            pieces[i];
      }
    }
  }
}

Pieces pieces_of(const Heads& heads) {
  return {
      static_cast<const uint4*>(heads.data),
      heads.batch_step / width,
      heads.token_step / width,
      heads.head_step / width};
}

bool in_pieces(const Heads& heads) {
  return aligned_for_eight(heads.data) && heads.batch_step % width == 0 &&
      heads.token_step % width == 0 && heads.head_step % width == 0;
}

} // namespace

bool can_join_heads(
    const JoinedShape& shape,
    const Heads& query,
    const Heads& key,
    const Heads& value) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  return shape.size % width == 0 && shape.element != Element::fp32 &&
      shape.batch * shape.tokens < most && in_pieces(query) && in_pieces(key) &&
      in_pieces(value);
}

const char* join_heads(
    const JoinedShape& shape,
    const Heads& query,
    const Heads& key,
    const Heads& value,
    void* joined,
    void* stream) {
  const std::int64_t rows = shape.batch * shape.tokens;
  const std::int64_t size = shape.size / width;
  const std::int64_t of_row = shape.groups * (shape.queries + 2) * size;
  if (rows <= 0 || of_row <= 0) {
    return nullptr;
  }
  return launch(
      join_kernel,
      {static_cast<unsigned>((rows + rows_at_once - 1) / rows_at_once),
       static_cast<unsigned>(threads_for(of_row, most_threads))},
      stream,
      JoinedPieces{
          static_cast<int>(rows),
          static_cast<int>(shape.tokens),
          static_cast<int>(shape.queries),
          static_cast<int>(size),
          static_cast<int>(of_row)},
      pieces_of(query),
      pieces_of(key),
      pieces_of(value),
      static_cast<uint4*>(joined));
}

} // namespace cairn::kernels::cuda
