#pragma once

namespace cairn::kernels {

/// Options of accumulate(): into += factor * from.
struct Accumulation {
  float factor = 1;
  bool overwrite = false; ///< into = factor * from
};

} // namespace cairn::kernels
