#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/scalar.h"
#include "kernels/internal/cpu/table.h"

namespace cairn::kernels::cpu {
namespace { // see scalar.h

template <class V, Element element>
V load(const void* from, std::int64_t i) {
  if constexpr (element == Element::fp32) {
    return V::load(static_cast<const float*>(from) + i);
  } else if constexpr (element == Element::fp16) {
    return V::load_fp16(static_cast<const std::uint16_t*>(from) + i);
  } else {
    return V::load_bf16(static_cast<const std::uint16_t*>(from) + i);
  }
}

template <Element element, class V>
void store(V value, void* to, std::int64_t i) {
  if constexpr (element == Element::fp32) {
    value.store(static_cast<float*>(to) + i);
  } else if constexpr (element == Element::fp16) {
    value.store_fp16(static_cast<std::uint16_t*>(to) + i);
  } else {
    value.store_bf16(static_cast<std::uint16_t*>(to) + i);
  }
}

template <Element value>
struct Constant {};

/// Calls `work` with the element as a compile-time constant.
template <class Work>
auto with_element(Element element, Work&& work) {
  switch (element) {
    case Element::fp16:
      return work(Constant<Element::fp16>{});
    case Element::bf16:
      return work(Constant<Element::bf16>{});
    case Element::fp32:
      break;
  }
  return work(Constant<Element::fp32>{});
}

/// Calls `work(V(), i)` for every whole vector, then `work(Scalar(), i)` for
/// the remaining elements.
template <class V, class Work>
void for_each(std::int64_t count, Work&& work) {
  std::int64_t i = 0;
#pragma GCC unroll 4
  for (; i + V::width <= count; i += V::width) {
    work(V(), i);
  }
  for (; i < count; ++i) {
    work(Scalar(), i);
  }
}

/// A formula, and the arrays it reads and writes.
template <Element gradient, bool copies, Element copy, class Formula>
struct Elements {
  static constexpr int states = Formula::states;

  Formula formula; // a copy, which stores cannot alias
  const float* weights;
  const void* gradients;
  float* target;
  void* copy_to;
  float* first;
  float* second;

  /// Updates `blocks` vectors from element i on. All are read before the first
  /// is written, so that the compiler may interleave their instructions.
  template <class V, int blocks>
  [[gnu::always_inline]] void update(std::int64_t i) const {
    V own[blocks];
    V weight[blocks];
    V state[blocks][states > 1 ? states : 1];
#pragma GCC unroll 8
    for (int j = 0; j < blocks; ++j) {
      const std::int64_t at = i + j * V::width;
      own[j] = load<V, gradient>(gradients, at);
      if constexpr (Formula::reads_weights) {
        weight[j] = V::load(weights + at);
      } else {
        weight[j] = V(0.F);
      }
      if constexpr (states > 0) {
        state[j][0] = V::load(first + at);
      }
      if constexpr (states > 1) {
        state[j][1] = V::load(second + at);
      }
    }
#pragma GCC unroll 8
    for (int j = 0; j < blocks; ++j) {
      formula(own[j], weight[j], state[j]);
    }
#pragma GCC unroll 8
    for (int j = 0; j < blocks; ++j) {
      const std::int64_t at = i + j * V::width;
      weight[j].store(target + at);
      if constexpr (states > 0) {
        state[j][0].store(first + at);
      }
      if constexpr (states > 1) {
        state[j][1].store(second + at);
      }
      if constexpr (copies) {
        store<copy>(weight[j], copy_to, at);
      }
    }
  }
};

template <class V, Element gradient, bool copies, Element copy, class Formula>
void update_elements(
    const Stretch& stretch,
    const Formula& formula,
    float* target) {
  const Elements<gradient, copies, copy, Formula> elements{
      formula,
      stretch.weights,
      stretch.gradients,
      target,
      stretch.copy,
      stretch.states[0],
      stretch.states[1]};
  const std::int64_t count = stretch.count;
  std::int64_t i = 0;
  for (; i + V::blocks * V::width <= count; i += V::blocks * V::width) {
    elements.template update<V, V::blocks>(i);
  }
  for (; i + V::width <= count; i += V::width) {
    elements.template update<V, 1>(i);
  }
  for (; i < count; ++i) {
    elements.template update<Scalar, 1>(i);
  }
}

template <class V, class Formula>
void update(const Stretch& stretch, const Formula& formula, float* target) {
  with_element(
      stretch.gradient_type,
      [&]<Element gradient>(Constant<gradient>) {
        if (target != nullptr || stretch.copy == nullptr) {
          float* to = target != nullptr ? target : stretch.weights;
          update_elements<V, gradient, false, Element::fp32>(
              stretch,
              formula,
              to);
          return;
        }
        with_element(stretch.copy_type, [&]<Element copy>(Constant<copy>) {
          update_elements<V, gradient, true, copy>(
              stretch,
              formula,
              stretch.weights);
        });
      });
}

/// Uses sixteen sums, element i going to sum i % 16, for any width of vector,
/// so the result does not depend on the width.
template <class V>
double sum_of_squares(const void* values, Element type, std::int64_t count) {
  constexpr int lanes = 16;
  constexpr int vectors = lanes / V::width;
  double sums[lanes];
  with_element(type, [&]<Element element>(Constant<element>) {
    typename V::Sums partial[vectors];
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
#pragma GCC unroll 16
      for (int j = 0; j < vectors; ++j) {
        partial[j].add_square(load<V, element>(values, i + j * V::width));
      }
    }
#pragma GCC unroll 16
    for (int j = 0; j < vectors; ++j) {
      partial[j].store(sums + j * V::width);
    }
    for (int j = 0; i < count; ++i, ++j) {
      const double value{load<Scalar, element>(values, i).value};
      sums[j] += value * value;
    }
  });
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) {
      sums[j] += sums[j + half];
    }
  }
  return sums[0];
}

/// The first value whose exponent bits are all set, which means inf or nan.
template <class Bits>
std::int64_t first_with_exponent(
    const void* values,
    std::int64_t count,
    Bits exponent) {
  constexpr int block = 64; // constant, so the compiler vectorises
  const Bits* bits = static_cast<const Bits*>(values);
  std::int64_t i = 0;
  for (; i + block <= count; i += block) {
    Bits found = 0;
    for (int j = 0; j < block; ++j) {
      found = static_cast<Bits>(found | ((bits[i + j] & exponent) == exponent));
    }
    if (found != 0) {
      break;
    }
  }
  for (; i < count; ++i) {
    if ((bits[i] & exponent) == exponent) {
      return i;
    }
  }
  return -1;
}

inline std::int64_t first_non_finite(
    const void* values,
    Element type,
    std::int64_t count) {
  switch (type) {
    case Element::fp16:
      return first_with_exponent<std::uint16_t>(values, count, 0x7c00);
    case Element::bf16:
      return first_with_exponent<std::uint16_t>(values, count, 0x7f80);
    case Element::fp32:
      break;
  }
  return first_with_exponent<std::uint32_t>(values, count, 0x7f800000);
}

template <class V>
void accumulate(
    float* into,
    const void* from,
    Element type,
    std::int64_t count,
    Accumulation how) {
  with_element(
      type,
      [=, factor = how.factor]<Element element>(Constant<element>) {
        if (how.overwrite) {
          for_each<V>(count, [=](auto lane, std::int64_t i) {
            using Lane = decltype(lane);
            (load<Lane, element>(from, i) * Lane(factor)).store(into + i);
          });
        } else {
          for_each<V>(count, [=](auto lane, std::int64_t i) {
            using Lane = decltype(lane);
            const Lane value = load<Lane, element>(from, i);
            fma(value, Lane(factor), Lane::load(into + i)).store(into + i);
          });
        }
      });
}

template <class V>
void convert(
    const void* from,
    Element from_type,
    void* to,
    Element to_type,
    std::int64_t count) {
  if (from_type == to_type) {
    const std::int64_t bytes = count * bytes_of(from_type);
    if (bytes > 0) {
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
    }
    return;
  }
  with_element(from_type, [=]<Element source>(Constant<source>) {
    with_element(to_type, [=]<Element target>(Constant<target>) {
      if constexpr (source != target) {
        for_each<V>(count, [=](auto lane, std::int64_t i) {
          store<target>(load<decltype(lane), source>(from, i), to, i);
        });
      }
    });
  });
}

template <class V, class... Formula>
constexpr Updates<Formula...> updates_for(Updates<Formula...>*) {
  return {&update<V, Formula>...};
}

template <class V>
constexpr Table table_for(const char* name) {
  return {
      .name = name,
      .updates = updates_for<V>(static_cast<Formulas<Updates>*>(nullptr)),
      .sum_of_squares = &sum_of_squares<V>,
      .first_non_finite = &first_non_finite,
      .accumulate = &accumulate<V>,
      .convert = &convert<V>};
}

} // namespace
} // namespace cairn::kernels::cpu
