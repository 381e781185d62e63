#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cpu/decoder_product.h"
#include "kernels/cpu/row_exp.h"

namespace cairn::kernels::cpu {
namespace { // see scalar.h

/// Sum of term(i) for i below `count`, over sixteen lanes.
template <class Term>
float sum_over_lanes(std::int64_t count, Term&& term) {
  float sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int j = 0; j < lanes; ++j) {
      sums[j] += term(i + j);
    }
  }
  for (int j = 0; i < count; ++i, ++j) {
    sums[j] += term(i);
  }
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) {
      sums[j] += sums[j + half];
    }
  }
  return sums[0];
}

inline float greatest(const float* values, std::int64_t count) {
  float tops[lanes];
  for (float& top : tops) {
    top = -INFINITY;
  }
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int j = 0; j < lanes; ++j) {
      tops[j] = values[i + j] > tops[j] ? values[i + j] : tops[j];
    }
  }
  for (int j = 0; i < count; ++i, ++j) {
    tops[j] = values[i] > tops[j] ? values[i] : tops[j];
  }
  float top = tops[0];
  for (const float each : tops) {
    top = each > top ? each : top;
  }
  return top;
}

inline void normalize(const RowNormalization& n) {
  const auto size = static_cast<float>(n.size);
  float mean = 0;
  if (n.kind == RowNorm::layer_norm) {
    mean =
        sum_over_lanes(n.size, [&](std::int64_t i) { return n.x[i]; }) / size;
  }
  const float squares = sum_over_lanes(n.size, [&](std::int64_t i) {
    return (n.x[i] - mean) * (n.x[i] - mean);
  });
  const float inverse = 1 / __builtin_sqrtf(squares / size + n.epsilon);
  for (std::int64_t i = 0; i < n.size; ++i) {
    n.y[i] = (n.x[i] - mean) * inverse * n.weight[i];
  }
  if (n.bias != nullptr) {
    for (std::int64_t i = 0; i < n.size; ++i) {
      n.y[i] += n.bias[i];
    }
  }
}

inline void activate(
    RowActivation kind,
    float* values,
    const float* factors,
    std::int64_t count) {
  switch (kind) {
    case RowActivation::gelu:
      for (std::int64_t i = 0; i < count; ++i) {
        values[i] = 0.5F * values[i] * (1 + std::erf(values[i] * 0.707106781F));
      }
      break;
    case RowActivation::gelu_tanh:
      // (1 + tanh(u)) / 2 is 1 / (1 + e^(-2u)).
      for (std::int64_t i = 0; i < count; ++i) {
        const float x = values[i];
        const float u = 0.797884561F * (x + 0.044715F * x * x * x);
        values[i] = x / (1 + row_exp(-2 * u));
      }
      break;
    case RowActivation::relu:
      for (std::int64_t i = 0; i < count; ++i) {
        values[i] = values[i] > 0 ? values[i] : 0;
      }
      break;
    case RowActivation::silu:
      for (std::int64_t i = 0; i < count; ++i) {
        values[i] = values[i] / (1 + row_exp(-values[i]));
      }
      break;
    case RowActivation::squared_relu:
      for (std::int64_t i = 0; i < count; ++i) {
        values[i] = values[i] > 0 ? values[i] * values[i] : 0;
      }
      break;
  }
  if (factors != nullptr) {
    for (std::int64_t i = 0; i < count; ++i) {
      values[i] *= factors[i];
    }
  }
}

/// The products of a query with the keys of a page. Four sums for each token,
/// element i going to sum i % 4, let their additions overlap.
template <class V>
void score_page(
    const PagedAttention& a,
    const float* query,
    const float* keys,
    float* scores) {
  const auto tokens_at = [&]<class Lane>(Lane, std::int64_t t) {
    Lane sums[4] = {Lane(0.F), Lane(0.F), Lane(0.F), Lane(0.F)};
    std::int64_t i = 0;
    for (; i + 4 <= a.head_size; i += 4) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        sums[j] =
            fma(Lane(query[i + j]),
                Lane::load(keys + (i + j) * a.page_tokens + t),
                sums[j]);
      }
    }
    for (int j = 0; i < a.head_size; ++i, ++j) {
      sums[j] =
          fma(Lane(query[i]),
              Lane::load(keys + i * a.page_tokens + t),
              sums[j]);
    }
    const Lane sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    (sum * Lane(a.scale)).store(scores + t);
  };
  std::int64_t t = 0;
  for (; t + V::width <= a.page_tokens; t += V::width) {
    tokens_at(V(), t);
  }
  for (; t < a.page_tokens; ++t) {
    tokens_at(Scalar(), t);
  }
}

/// Turns scores into numbers that are in proportion to their probabilities;
/// returns the sum of these numbers.
inline float exponentials(float* scores, std::int64_t count) {
  const float top = greatest(scores, count);
  for (std::int64_t i = 0; i < count; ++i) {
    scores[i] = row_exp(scores[i] - top);
  }
  return sum_over_lanes(count, [&](std::int64_t i) { return scores[i]; });
}

/// Elements from `i` on of the sum of all values, each times its probability.
template <class Lane, int vectors>
void mix_elements(
    const PagedAttention& a,
    float factor,
    std::int64_t i,
    float* result) {
  Lane sums[vectors];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) {
    sums[v] = Lane(0.F);
  }
  for (std::int64_t first = 0; first < a.length; first += a.page_tokens) {
    const float* values = a.pages[first / a.page_tokens] + a.values_at + i;
    const std::int64_t count = std::min(a.page_tokens, a.length - first);
    for (std::int64_t t = 0; t < count; ++t) {
      const Lane weight(a.scores[first + t]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        sums[v] =
            fma(weight,
                Lane::load(values + t * a.head_size + v * Lane::width),
                sums[v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) {
    (sums[v] * Lane(factor)).store(result + i + v * Lane::width);
  }
}

template <class V>
void attend(const PagedAttention& a) {
  for (std::int64_t head = 0; head < a.heads; ++head) {
    const float* query = a.query + head * a.head_size;
    float* result = a.result + head * a.head_size;
    for (std::int64_t first = 0; first < a.length; first += a.page_tokens) {
      score_page<V>(
          a,
          query,
          a.pages[first / a.page_tokens] + a.keys_at,
          a.scores + first);
    }
    if (a.bias != nullptr) {
      const float* bias = a.bias + head * a.bias_step;
      for (std::int64_t t = 0; t < a.length; ++t) {
        a.scores[t] += bias[t];
      }
    }
    const float factor = 1 / exponentials(a.scores, a.length);
    std::int64_t i = 0;
    for (; i + 4 * V::width <= a.head_size; i += 4 * V::width) {
      mix_elements<V, 4>(a, factor, i, result);
    }
    for (; i + V::width <= a.head_size; i += V::width) {
      mix_elements<V, 1>(a, factor, i, result);
    }
    for (; i < a.head_size; ++i) {
      mix_elements<Scalar, 1>(a, factor, i, result);
    }
  }
}

template <class V>
constexpr DecoderTable decoder_table_for(const char* name) {
  return {
      .name = name,
      .multiply = &multiply<V>,
      .normalize = &normalize,
      .activate = &activate,
      .attend = &attend<V>};
}

} // namespace
} // namespace cairn::kernels::cpu
