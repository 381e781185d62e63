#pragma once

#include "kernels/internal/in_parallel.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

namespace cairn::kernels {

/// Adds rows: table[ids[i]] += rows[i] for each i in turn, on CPU matrices of
/// floats. Each thread handles some of the columns, so the order of additions
/// is fixed.
inline void add_rows(
    const at::Tensor& table,
    const at::Tensor& ids,
    const at::Tensor& rows) {
  constexpr std::int64_t block = 64; // columns per thread, at least
  const std::int64_t columns = table.size(1);
  const at::Tensor numbers = ids.to(at::kLong).contiguous();
  const at::Tensor values = rows.contiguous();
  const auto* number = numbers.const_data_ptr<std::int64_t>();
  const auto* from = values.const_data_ptr<float>();
  auto* to = table.mutable_data_ptr<float>();
  const std::int64_t step = table.stride(0);
  in_parallel(
      (columns + block - 1) / block,
      [&](std::int64_t first, std::int64_t last) {
        const std::int64_t end = std::min(columns, last * block);
        for (std::int64_t i = 0; i < numbers.numel(); ++i) {
          float* const row = to + number[i] * step;
          const float* const value = from + i * columns;
          for (std::int64_t j = first * block; j < end; ++j) {
            row[j] += value[j];
          }
        }
      });
}

} // namespace cairn::kernels
