#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/scalar.h"
#include "kernels/internal/cpu/decoder_rows.h"

namespace cairn::kernels::cpu {
namespace { // see scalar.h

inline constexpr int lanes = 16;

/// Rows and outputs that are computed at a time, so that their sums stay in
/// registers.
template <class V>
struct ProductTiles {
  static constexpr int vectors = lanes / V::width; ///< of a sum
  static constexpr int rows = vectors == 1 ? 4 : vectors < lanes ? 2 : 1;
  static constexpr int outputs = vectors == 1 ? 4 : vectors < lanes ? 2 : 1;
  /// Outputs of a single row.
  static constexpr int alone = vectors == 1 ? 8 : vectors < lanes ? 4 : 1;
};

template <class V, WeightNumbers numbers>
V load_weight(const void* from, std::int64_t i) {
  if constexpr (numbers == WeightNumbers::fp32) {
    return V::load(static_cast<const float*>(from) + i);
  } else if constexpr (numbers == WeightNumbers::bf16) {
    return V::load_bf16(static_cast<const std::uint16_t*>(from) + i);
  } else {
    return V::load_int8(static_cast<const std::int8_t*>(from) + i);
  }
}

/// The sum of the lanes of `vectors` vectors: the upper half of them is added
/// to the lower half, again and again until one is left.
template <class V, int vectors>
float sum_of_lanes(V (&sum)[vectors]) {
  for (int half = vectors / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int j = 0; j < half; ++j) {
      sum[j] = sum[j] + sum[j + half];
    }
  }
  return sum[0].sum();
}

/// Adds the last elements of a row, which do not fill the lanes.
template <class V, WeightNumbers numbers, int vectors>
void add_last_elements(
    V (&sum)[vectors],
    const float* x,
    const void* weight,
    std::int64_t weight_at,
    std::int64_t count) {
  float all[lanes];
  for (int v = 0; v < vectors; ++v) {
    sum[v].store(all + v * V::width);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    all[i] = __builtin_fmaf(
        x[i],
        load_weight<Scalar, numbers>(weight, weight_at + i).value,
        all[i]);
  }
  for (int v = 0; v < vectors; ++v) {
    sum[v] = V::load(all + v * V::width);
  }
}

/// Outputs whose weights stay in the nearest cache while all rows use them.
inline constexpr std::int64_t outputs_at_once = 8;

template <WeightNumbers numbers>
const char* address_of(const void* from, std::int64_t i) {
  constexpr std::int64_t bytes = numbers == WeightNumbers::fp32 ? 4
      : numbers == WeightNumbers::bf16                          ? 2
                                                                : 1;
  return static_cast<const char*>(from) + i * bytes;
}

/// The outputs from `output` on of the rows from `row` on. With `fetches` the
/// weights that are needed after those in the nearest cache are fetched
/// meanwhile.
template <class V, WeightNumbers numbers, int rows, int outputs, bool fetches>
void multiply_tile(const RowProduct& p, std::int64_t row, std::int64_t output) {
  constexpr int vectors = ProductTiles<V>::vectors;
  const std::int64_t inputs = p.weight.inputs;
  const float* x = p.x + row * p.x_step;
  const std::int64_t first = output * inputs;
  V sum[rows][outputs][vectors];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 16
    for (int o = 0; o < outputs; ++o) {
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) {
        sum[r][o][v] = V(0.F);
      }
    }
  }
  std::int64_t i = 0;
  for (; i + lanes <= inputs; i += lanes) {
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) {
      const std::int64_t at = i + v * V::width;
      V own[rows];
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r) {
        own[r] = V::load(x + r * p.x_step + at);
      }
#pragma GCC unroll 16
      for (int o = 0; o < outputs; ++o) {
        const std::int64_t weight_at = first + o * inputs + at;
        if constexpr (fetches) {
          __builtin_prefetch(address_of<numbers>(
              p.weight.data,
              weight_at + outputs_at_once * inputs));
        }
        const V weight = load_weight<V, numbers>(p.weight.data, weight_at);
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) {
          sum[r][o][v] = fma(own[r], weight, sum[r][o][v]);
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 16
    for (int o = 0; o < outputs; ++o) {
      if (i < inputs) {
        add_last_elements<V, numbers>(
            sum[r][o],
            x + r * p.x_step + i,
            p.weight.data,
            first + o * inputs + i,
            inputs - i);
      }
      float value = sum_of_lanes(sum[r][o]);
      if constexpr (numbers == WeightNumbers::int8) {
        value *= p.weight.factors[output + o];
      }
      if (p.bias != nullptr) {
        value += p.bias[output + o];
      }
      float& y = p.y[(row + r) * p.y_step + output + o];
      y = p.adds ? y + value : value;
    }
  }
}

template <class V, WeightNumbers numbers, int rows, bool fetches = false>
void multiply_rows(
    const RowProduct& p,
    std::int64_t row,
    std::int64_t output,
    std::int64_t outputs) {
  constexpr int most =
      rows == 1 ? ProductTiles<V>::alone : ProductTiles<V>::outputs;
  std::int64_t i = 0;
  for (; i + most <= outputs; i += most) {
    multiply_tile<V, numbers, rows, most, fetches>(p, row, output + i);
  }
  if constexpr (most > 1) {
    for (; i < outputs; ++i) {
      multiply_tile<V, numbers, rows, 1, fetches>(p, row, output + i);
    }
  }
}

/// The rows from `row` on, of which there may be fewer than a tile has.
template <class V, WeightNumbers numbers>
void multiply_last_rows(
    const RowProduct& p,
    std::int64_t row,
    std::int64_t end,
    std::int64_t output,
    std::int64_t outputs) {
  if constexpr (ProductTiles<V>::rows > 2) {
    if (end - row == 3) {
      multiply_rows<V, numbers, 3>(p, row, output, outputs);
      return;
    }
    if (end - row == 2) {
      multiply_rows<V, numbers, 2>(p, row, output, outputs);
      return;
    }
  }
  for (; row < end; ++row) {
    multiply_rows<V, numbers, 1>(p, row, output, outputs);
  }
}

/// Weights of a few outputs stay in the nearest cache while all rows use them;
/// a stretch of rows stays in the next one while all outputs use it.
template <class V, WeightNumbers numbers>
void multiply_matrix(const RowProduct& p) {
  constexpr int tile = ProductTiles<V>::rows;
  constexpr std::int64_t rows_at_once = 128;
  for (std::int64_t first = 0; first < p.rows; first += rows_at_once) {
    const std::int64_t end = std::min(p.rows, first + rows_at_once);
    for (std::int64_t output = p.begin; output < p.end;
         output += outputs_at_once) {
      const std::int64_t outputs = std::min(outputs_at_once, p.end - output);
      std::int64_t row = first;
      if (end - first == 1) {
        multiply_rows<V, numbers, 1, true>(p, row, output, outputs);
        continue;
      }
      if (row + tile <= end) {
        multiply_rows<V, numbers, tile, true>(p, row, output, outputs);
        row += tile;
      }
      for (; row + tile <= end; row += tile) {
        multiply_rows<V, numbers, tile>(p, row, output, outputs);
      }
      multiply_last_rows<V, numbers>(p, row, end, output, outputs);
    }
  }
}

template <class V>
void multiply(const RowProduct& p) {
  switch (p.weight.numbers) {
    case WeightNumbers::fp32:
      return multiply_matrix<V, WeightNumbers::fp32>(p);
    case WeightNumbers::bf16:
      return multiply_matrix<V, WeightNumbers::bf16>(p);
    case WeightNumbers::int8:
      return multiply_matrix<V, WeightNumbers::int8>(p);
  }
}

} // namespace
} // namespace cairn::kernels::cpu
