#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "kernels/formulas.h"

namespace cairn::kernels::cpu {

/// Applies a formula to every element; see update() in cpu.h.
template <class Formula>
using Update = void (*)(const Stretch&, const Formula&, float* target);

template <class... Formula>
using Updates = std::tuple<Update<Formula>...>;

/// All kernels as compiled for one instruction set.
struct Table {
  const char* name;
  Formulas<Updates> updates;
  double (*sum_of_squares)(const void*, Element, std::int64_t);
  std::int64_t (*first_non_finite)(const void*, Element, std::int64_t);
  void (*accumulate)(
      float*,
      const void*,
      Element,
      std::int64_t,
      float factor,
      bool overwrite);
  void (*convert)(const void*, Element, void*, Element, std::int64_t);
};

// One file each; only those of this architecture exist.
extern const Table portable_table;
extern const Table neon_table;
extern const Table neon_bf16_table;
extern const Table avx2_table;
extern const Table avx512_table;

/// What this machine can run, the quickest last.
std::vector<const Table*> runnable_tables();

/// The quickest.
const Table& table();

/// Whether it is an Arm CPU that multiplies matrices of bf16.
bool multiplies_bf16();

} // namespace cairn::kernels::cpu
