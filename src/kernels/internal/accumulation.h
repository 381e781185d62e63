#pragma once

namespace cairn::kernels {

/// How accumulate() joins two arrays: into += factor * from.
struct Accumulation {
  float factor = 1;
  bool overwrite = false; ///< into = factor * from
};

} // namespace cairn::kernels
