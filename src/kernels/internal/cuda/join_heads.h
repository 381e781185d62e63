#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels::cuda {

// Queries, keys and values of attention in one tensor of 16 bits. See cuda.h
// for what pointers, streams and results are.

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

/// Tables for rotary positions, [positions, size / 2]: token t of the batch has
/// row t modulo `positions`, and elements j and j + size / 2 of its queries and
/// keys are turned by the angle of column j.
struct Angles {
  const void* cosine = nullptr; ///< null: nothing is turned
  const void* sine = nullptr;
  std::int64_t positions = 1;
};

/// A tensor [batch, tokens, heads, size] whose last dimension has no gaps.
/// Steps are from one index to the next, in elements.
struct Heads {
  const void* data = nullptr;
  std::int64_t batch_step = 0;
  std::int64_t token_step = 0;
  std::int64_t head_step = 0;
};

struct HeadsOfAll {
  Heads query;
  Heads key;
  Heads value;
};

/// True when the functions below take these: eight elements lie together, at
/// multiples of 16 bytes, and so do those of each half if heads are turned.
bool can_join_heads(
    const JoinedShape& shape,
    const HeadsOfAll& heads,
    const Angles& angles);

/// Number of groups of tokens whose sums join_heads() gives.
std::int64_t joined_parts(const JoinedShape& shape);

/// Writes queries, keys and values to their places in one tensor, queries and
/// keys turned back. `parts` become the sums of its columns over groups of
/// tokens, [joined_parts(shape), groups * (queries + 2) * size]; sum_of_parts()
/// adds them up. It may be null.
[[nodiscard]] const char* join_heads(
    const JoinedShape& shape,
    const HeadsOfAll& from,
    const Angles& angles,
    void* joined,
    float* parts,
    void* stream);

/// Writes queries, keys and values to three tensors without gaps, queries and
/// keys turned.
[[nodiscard]] const char* split_heads(
    const JoinedShape& shape,
    const void* joined,
    const Angles& angles,
    void* query,
    void* key,
    void* value,
    void* stream);

} // namespace cairn::kernels::cuda
