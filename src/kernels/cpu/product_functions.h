#pragma once

#include "kernels/cpu/attention_loops.h"
#include "kernels/cpu/gelu_loops.h"
#include "kernels/cpu/product_loops.h"
#include "kernels/cpu/score_row_loops.h"
#include "kernels/internal/cpu/product_table.h"

namespace cairn::kernels::cpu {
namespace { // see scalar.h

/// All functions of a table, for one kind of vector and the innermost loop of
/// products.
template <class V, class Inner>
constexpr ProductTable products_for(const char* name) {
  return {
      name,
      Inner::rows,
      Inner::columns,
      multiply_matrices<Inner>,
      attend_to_keys<V, Inner>,
      attend_to_keys_backward<V, Inner>,
      gelu_of<V>,
      highest_of_row<V>,
      row_exponentials<V>};
}

} // namespace
} // namespace cairn::kernels::cpu
