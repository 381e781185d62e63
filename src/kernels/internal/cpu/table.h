#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "kernels/formulas.h"
#include "kernels/internal/accumulation.h"

namespace cairn::kernels::cpu {

/// Pointer to the kernel that applies a formula to every element; see update()
/// in cpu.h.
template <class Formula>
using Update = void (*)(const Stretch&, const Formula&, float* target);

template <class... Formula>
using Updates = std::tuple<Update<Formula>...>;

/// All kernels, compiled for one instruction set.
struct Table {
  const char* name;
  Formulas<Updates> updates;
  double (*sum_of_squares)(const void*, Element, std::int64_t);
  std::int64_t (*first_non_finite)(const void*, Element, std::int64_t);
  void (*accumulate)(float*, const void*, Element, std::int64_t, Accumulation);
  void (*convert)(const void*, Element, void*, Element, std::int64_t);
};

// Each table has its own file; only those of this architecture exist.
extern const Table portable_table;
extern const Table neon_table;
extern const Table neon_bf16_table;
extern const Table avx2_table;
extern const Table avx512_table;

/// The tables that this machine can run, the fastest last.
std::vector<const Table*> runnable_tables();

/// The fastest table that this machine can run.
const Table& table();

/// True on a CPU with instructions for products of bf16 matrices.
bool multiplies_bf16();

} // namespace cairn::kernels::cpu
