// Plain loops, compiled with -O3: the compiler turns them into vector code.

#include "distributed/shared_memory/shared_memory_reduce.h"

#include "distributed/shared_memory/shared_memory_half.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Half.h>
#include <cairn/base/error.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace cairn::distributed {
namespace {

/// The type in which values of type T are added up.
template <typename T>
using Sum = std::conditional_t<
    std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16> ||
        std::is_same_v<T, c10::Float8_e4m3fn> ||
        std::is_same_v<T, c10::Float8_e5m2>,
    float,
    T>;

/// The type of integer arithmetic: integers wrap around, as everywhere in
/// libtorch.
template <typename A>
using Wrapping =
    std::conditional_t<sizeof(A) <= 4, std::uint32_t, std::uint64_t>;

struct Add {
  template <typename A>
  static A of(A a, A b) {
    if constexpr (std::is_integral_v<A>) {
      using W = Wrapping<A>;
      return static_cast<A>(static_cast<W>(a) + static_cast<W>(b));
    } else {
      return a + b;
    }
  }
};

struct Multiply {
  template <typename A>
  static A of(A a, A b) {
    if constexpr (std::is_integral_v<A>) {
      using W = Wrapping<A>;
      return static_cast<A>(static_cast<W>(a) * static_cast<W>(b));
    } else {
      return a * b;
    }
  }
};

// Max and Min: a NaN wins, from whichever rank it comes.
struct Max {
  template <typename A>
  static A of(A a, A b) {
    return a > b || a != a ? a : b;
  }
};

struct Min {
  template <typename A>
  static A of(A a, A b) {
    return a < b || a != a ? a : b;
  }
};

struct Keep {
  explicit Keep(int) {}
  template <typename A>
  A of(A a) const {
    return a;
  }
};

/// Mean by multiplication: faster than Divide, and exact where the number of
/// ranks is a power of two.
template <typename A>
struct Scale {
  explicit Scale(int count) : factor(A(1) / static_cast<A>(count)) {}
  A of(A a) const { return a * factor; }
  A factor;
};

template <typename A>
struct Divide {
  explicit Divide(int count) : divisor(static_cast<A>(count)) {}
  A of(A a) const { return a / divisor; }
  A divisor;
};

// bf16 conversions are written out in bits, because compilers vectorise that.

template <typename T>
Sum<T> widened(T x) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    return std::bit_cast<float>(std::uint32_t{x.x} << 16);
  } else {
    return static_cast<Sum<T>>(x);
  }
}

template <typename T>
T narrowed(Sum<T> x) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t to_even = 0x7fff + ((bits >> 16) & 1);
    const std::uint32_t rounded = x != x ? 0x7fc00000 : bits + to_even;
    return {static_cast<std::uint16_t>(rounded >> 16), T::from_bits()};
  } else {
    return static_cast<T>(x);
  }
}

template <typename T, typename Op, typename Last>
void reduce_pair(
    T* out,
    const T* a,
    const T* b,
    std::size_t elements,
    Last last) {
#pragma GCC ivdep // `out` may be `a` or `b`
  for (std::size_t i = 0; i < elements; ++i) {
    out[i] = narrowed<T>(last.of(Op::of(widened(a[i]), widened(b[i]))));
  }
}

/// Elements that are worked on together: their intermediate values stay in the
/// innermost cache.
constexpr std::size_t block = 1024;

template <typename T>
const Sum<T>* as_sums(const T* values, std::size_t count, Sum<T>* scratch) {
  if constexpr (std::is_same_v<T, Sum<T>>) {
    return values;
  } else if constexpr (std::is_same_v<T, c10::Half>) {
    widen_halves(values, scratch, count);
  } else {
    std::transform(values, values + count, scratch, widened<T>);
  }
  return scratch;
}

template <typename T, typename Op, typename Last>
void reduce_block(
    T* out,
    const void* const* inputs,
    int count,
    std::size_t begin,
    std::size_t width,
    Last last) {
  using A = Sum<T>;
  A sums[block];
  A scratch[2][block];
  const auto input = [&](int rank) {
    const T* const values = static_cast<const T*>(inputs[rank]) + begin;
    return as_sums(values, width, scratch[rank % 2]);
  };
  const A* const a = input(0);
  const A* const b = input(1);
  for (std::size_t i = 0; i < width; ++i) {
    sums[i] = Op::of(a[i], b[i]);
  }
  for (int rank = 2; rank < count; ++rank) {
    const A* const x = input(rank);
    for (std::size_t i = 0; i < width; ++i) {
      sums[i] = Op::of(sums[i], x[i]);
    }
  }
  for (std::size_t i = 0; i < width; ++i) {
    sums[i] = last.of(sums[i]);
  }
  if constexpr (std::is_same_v<T, c10::Half>) {
    narrow_to_halves(sums, out + begin, width);
  } else {
    std::transform(sums, sums + width, out + begin, narrowed<T>);
  }
}

template <typename T, typename Op, typename Last>
void reduce_by(
    T* out,
    const void* const* inputs,
    int count,
    std::size_t elements) {
  const Last last(count);
  // A pair is reduced directly. Half values go through blocks all the same, for
  // their faster conversions.
  if (count == 2 && !std::is_same_v<T, c10::Half>) {
    const auto* const a = static_cast<const T*>(inputs[0]);
    const auto* const b = static_cast<const T*>(inputs[1]);
    reduce_pair<T, Op>(out, a, b, elements, last);
    return;
  }
  for (std::size_t begin = 0; begin < elements; begin += block) {
    const std::size_t width = std::min(block, elements - begin);
    reduce_block<T, Op>(out, inputs, count, begin, width, last);
  }
}

template <typename T, typename Op>
void reduce(
    void* out,
    const void* const* inputs,
    int count,
    std::size_t elements) {
  reduce_by<T, Op, Keep>(static_cast<T*>(out), inputs, count, elements);
}

template <typename T>
void average(
    void* out,
    const void* const* inputs,
    int count,
    std::size_t elements) {
  using A = Sum<T>;
  auto* const to = static_cast<T*>(out);
  if (std::has_single_bit(static_cast<unsigned>(count))) {
    reduce_by<T, Add, Scale<A>>(to, inputs, count, elements);
  } else {
    reduce_by<T, Add, Divide<A>>(to, inputs, count, elements);
  }
}

template <typename T>
ReduceKernel kernel_for(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return reduce<T, Add>;
    case ReduceOp::mean:
      if constexpr (!std::is_integral_v<T>) {
        return average<T>;
      }
      break;
    case ReduceOp::max:
      return reduce<T, Max>;
    case ReduceOp::min:
      return reduce<T, Min>;
    case ReduceOp::product:
      return reduce<T, Multiply>;
  }
  throw InternalError({.what = "a reduction that no kernel does"});
}

/// The kernel for booleans, bytes 0 and 1: "any" or "all".
ReduceKernel kernel_for_bool(ReduceOp op) {
  const bool any = op == ReduceOp::sum || op == ReduceOp::max;
  return kernel_for<std::uint8_t>(any ? ReduceOp::max : ReduceOp::min);
}

} // namespace

ReduceKernel reduce_kernel(c10::ScalarType dtype, ReduceOp op) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return kernel_for<float>(op);
    case c10::ScalarType::Double:
      return kernel_for<double>(op);
    case c10::ScalarType::Half:
      return kernel_for<c10::Half>(op);
    case c10::ScalarType::BFloat16:
      return kernel_for<c10::BFloat16>(op);
    case c10::ScalarType::Float8_e4m3fn:
      return kernel_for<c10::Float8_e4m3fn>(op);
    case c10::ScalarType::Float8_e5m2:
      return kernel_for<c10::Float8_e5m2>(op);
    case c10::ScalarType::Char:
      return kernel_for<std::int8_t>(op);
    case c10::ScalarType::Byte:
      return kernel_for<std::uint8_t>(op);
    case c10::ScalarType::Short:
      return kernel_for<std::int16_t>(op);
    case c10::ScalarType::Int:
      return kernel_for<std::int32_t>(op);
    case c10::ScalarType::Long:
      return kernel_for<std::int64_t>(op);
    case c10::ScalarType::Bool:
      return kernel_for_bool(op);
    default:
      throw InternalError({.what = "a type that no kernel reduces"});
  }
}

} // namespace cairn::distributed
