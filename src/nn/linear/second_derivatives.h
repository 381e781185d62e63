#pragma once

#include <ATen/core/grad_mode.h>
#include <cairn/base/error.h>

namespace cairn::nn {

/// Refuses a backward pass that is to be differentiated itself. Called in the
/// backward pass of operators that keep values without their history.
inline void refuse_second_derivatives(const char* what) {
  if (at::GradMode::is_enabled()) {
    throw UsageError(
        {.what = "no second derivatives here (backward with create_graph)",
         .where = what,
         .remedy = "leave create_graph out"});
  }
}

} // namespace cairn::nn
