#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels::cuda {

// Gradients of a table whose rows were picked by their numbers, such as word
// embeddings. See cuda.h for what pointers, streams and results are.

/// Gradients of picked rows, [count, columns], without gaps.
struct PickedRows {
  const void* gradients = nullptr;
  Element element = Element::bf16;
  std::int64_t count = 0;
  std::int64_t columns = 0;
  /// Numbers of the table's rows, ascending, [count].
  const std::int64_t* numbers = nullptr;
  /// The gradient that belongs to each of them, [count].
  const std::int64_t* order = nullptr;
};

/// Number of floats that add_to_table() needs as scratch memory.
std::int64_t table_scratch(const PickedRows& picked);

/// Adds to each row of the table the gradients that belong to it. They are
/// summed up in float in the order given, so results do not vary; the table is
/// rounded once.
[[nodiscard]] const char* add_to_table(
    const PickedRows& picked,
    float* scratch,
    void* table,
    Element table_element,
    void* stream);

} // namespace cairn::kernels::cuda
