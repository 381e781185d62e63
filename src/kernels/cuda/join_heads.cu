#include "kernels/internal/cuda/join_heads.h"

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/launch.cuh"

#include <algorithm>

namespace cairn::kernels::cuda {
namespace {

constexpr int width = 8; ///< elements of a piece
constexpr int most_threads = 512;
/// Tokens whose pieces are on the way at once.
constexpr int rows_at_once = 8;

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

/// A block has consecutive rows, `rows_of_block` of them. Each thread takes
/// pieces at the same place of all rows.
template <Element element>
__global__ void __launch_bounds__(most_threads, 2) join_kernel(
    JoinedPieces shape,
    int rows_of_block,
    Pieces query,
    Pieces key,
    Pieces value,
    uint4* joined,
    float* parts) {
  const int begin = static_cast<int>(blockIdx.x) * rows_of_block;
  const int end = min(begin + rows_of_block, shape.rows);
  for (int piece = static_cast<int>(threadIdx.x); piece < shape.of_row;
       piece += static_cast<int>(blockDim.x)) {
    const int head = piece / shape.size;
    const int group = head / (shape.queries + 2);
    const int place = head % (shape.queries + 2);
    const bool is_query = place < shape.queries;
    const Pieces from = is_query ? query : place == shape.queries ? key : value;
    const uint4* const first = from.data + piece % shape.size +
        from.head_step * (is_query ? group * shape.queries + place : group);
    Lane sums[width];
#pragma unroll
    for (int k = 0; k < width; ++k) {
      sums[k].value = 0;
    }
    int batch = begin / shape.tokens;
    int token = begin % shape.tokens;
    for (int row = begin; row < end; row += rows_at_once) {
      uint4 pieces[rows_at_once];
#pragma unroll
      for (int i = 0; i < rows_at_once; ++i) {
        if (row + i < end) {
          pieces[i] = first[batch * from.batch_step + token * from.token_step];
          const bool wraps = ++token == shape.tokens;
          batch += wraps ? 1 : 0;
          token = wraps ? 0 : token;
        }
      }
#pragma unroll
      for (int i = 0; i < rows_at_once; ++i) {
        if (row + i < end) {
          joined[static_cast<std::int64_t>(row + i) * shape.of_row + piece] =
              pieces[i];
          Lane lanes[width];
          load(&pieces[i], element, 0, lanes);
#pragma unroll
          for (int k = 0; k < width; ++k) {
            sums[k].value += lanes[k].value;
          }
        }
      }
    }
    store(
        sums,
        parts,
        Element::fp32,
        (static_cast<std::int64_t>(blockIdx.x) * shape.of_row + piece) * width);
  }
}

/// Rows of a block: about a thousand blocks, of no less than `rows_at_once`.
std::int64_t rows_of_block(const JoinedShape& shape) {
  const std::int64_t rows = shape.batch * shape.tokens;
  constexpr std::int64_t blocks = 1024;
  return std::max<std::int64_t>((rows + blocks - 1) / blocks, rows_at_once);
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

std::int64_t joined_parts(const JoinedShape& shape) {
  const std::int64_t of_block = rows_of_block(shape);
  return (shape.batch * shape.tokens + of_block - 1) / of_block;
}

const char* join_heads(
    const JoinedShape& shape,
    const Heads& query,
    const Heads& key,
    const Heads& value,
    void* joined,
    float* parts,
    void* stream) {
  const std::int64_t rows = shape.batch * shape.tokens;
  const std::int64_t size = shape.size / width;
  const std::int64_t of_row = shape.groups * (shape.queries + 2) * size;
  if (rows <= 0 || of_row <= 0) {
    return nullptr;
  }
  return launch(
      shape.element == Element::bf16 ? join_kernel<Element::bf16>
                                     : join_kernel<Element::fp16>,
      {static_cast<unsigned>(joined_parts(shape)),
       static_cast<unsigned>(threads_for(of_row, most_threads))},
      stream,
      JoinedPieces{
          static_cast<int>(rows),
          static_cast<int>(shape.tokens),
          static_cast<int>(shape.queries),
          static_cast<int>(size),
          static_cast<int>(of_row)},
      static_cast<int>(rows_of_block(shape)),
      pieces_of(query),
      pieces_of(key),
      pieces_of(value),
      static_cast<uint4*>(joined),
      parts);
}

} // namespace cairn::kernels::cuda
