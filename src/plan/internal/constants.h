#pragma once

#include <cairn/plan/estimate.h>

namespace cairn::plan {

/// The numbers of the model of time that no data sheet has. Those marked
/// "fitted" come from `plan_calibration --fit`, which fits them on a part of
/// the published tables; docs/planning.md shows how well.
struct Constants {
  /// Part of the memory's bandwidth that element-wise kernels reach. Measured
  /// on one H200: 4.3 of 4.8 TB/s.
  double memory_share = 0.85;
  /// Passes over memory of what is not a product, in units of the least that
  /// is possible: fitted.
  double pieces = 4.3;
  double eager = 2.27;
  double fused = 1.15;
  double compiled = 1;
  /// Speed of fused attention, of that of large products, PyTorch's and the
  /// kind of cuDNN's: fitted.
  double flash_share = 0.351;
  double fast_share = 0.865;
  /// Speed of large products in 8 bits, of what they would reach at the share
  /// of those in 16 bits. Measured on one H200: 1402 of 1979 TFLOP/s beside 756
  /// of 989.
  double eight_bit_share = 0.93;
  /// Part of a link's bandwidth that collectives reach: fitted.
  double link_share = 0.85;
  /// Part of the hidden communication's time that products lose meanwhile,
  /// since both use the same memory and processors: fitted.
  double interference = 0.3;
  /// Seconds that the host takes to launch a kernel.
  double launch_seconds = 5e-6;
  /// Seconds until the host has a number that the GPU has yet to compute: a few
  /// launches, and the way back.
  double read_seconds = 50e-6;
};

/// estimate() with other constants, for the calibration.
Estimate estimate_with(
    const Constants& constants,
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster,
    const EstimateOptions& options = {});

} // namespace cairn::plan
