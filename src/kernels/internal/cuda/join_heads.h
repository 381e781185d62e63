#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels::cuda {

// Queries, keys and values of attention in one tensor. See cuda.h for what
// pointers, streams and results are.

/// A tensor [batch, tokens, heads, size] whose last dimension has no gaps.
/// Steps are from one index to the next, in elements.
struct Heads {
  const void* data = nullptr;
  std::int64_t batch_step = 0;
  std::int64_t token_step = 0;
  std::int64_t head_step = 0;
};

/// Shape [batch, tokens, groups, queries + 2, size], without gaps. A group has
/// its queries, then its key, then its value.
struct JoinedShape {
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  std::int64_t groups = 0;
  std::int64_t queries = 0;
  std::int64_t size = 0;
  Element element = Element::bf16;
};

/// True when join_heads() takes these: eight elements lie together, at
/// multiples of 16 bytes.
bool can_join_heads(
    const JoinedShape& shape,
    const Heads& query,
    const Heads& key,
    const Heads& value);

/// Number of groups of tokens whose sums join_heads() gives.
std::int64_t joined_parts(const JoinedShape& shape);

/// Writes queries, keys and values, of 16 bits, to their places in one tensor.
/// `parts` become the sums of its columns over groups of tokens,
/// [joined_parts(shape), groups * (queries + 2) * size]; sum_of_parts() adds
/// them up.
[[nodiscard]] const char* join_heads(
    const JoinedShape& shape,
    const Heads& query,
    const Heads& key,
    const Heads& value,
    void* joined,
    float* parts,
    void* stream);

} // namespace cairn::kernels::cuda
