#pragma once

#include <cairn/plan/estimate.h>

namespace cairn::plan {

/// The numbers of the model of time that no data sheet has. Those marked
/// "fitted" come from `plan_calibration --fit`, which fits them on a part of
/// the published tables; docs/planning.md shows how well.
struct Constants {
  /// Part of the memory's bandwidth that element-wise kernels reach. Measured
  /// on one H200: 0.8 to 1 of a copy's speed, which is 4.2 of 4.8 TB/s.
  double memory_share = 0.85;
  /// Passes over memory of what is not a product, in units of the least that
  /// is possible for kernels apart from the products: fitted. Less than 1 where
  /// products do a part of it, such as GELU and sums with the residual stream.
  double pieces = 4.03;
  double eager = 1.72;
  double fused = 1.00;
  double compiled = 0.962;
  /// The same of Cairn on a GPU, measured on one H200.
  double cairn = 0.70;
  /// Speed of fused attention, of that of large products: PyTorch's is fitted.
  /// That of cuDNN's kind, with heads of 128 values, is measured on one H200
  /// with heads of 64, which are half as fast: 229 to 276 TFLOP/s of 756.
  double flash_share = 0.327;
  double fast_share = 0.62;
  /// Speed of attention with a number for each distance, of that of cuDNN's
  /// kind: Cairn has a kernel of its own for it. Measured on one H200: 1.345 ms
  /// and 2.354 ms for 64 x 12 x 1024 x 64.
  double placed_share = 0.57;
  /// Speed of large products in 8 bits, of what they would reach at the share
  /// of those in 16 bits. Measured on one H200: 1402 of 1979 TFLOP/s beside 756
  /// of 989.
  double eight_bit_share = 0.93;
  /// Part of a link's bandwidth that collectives reach: fitted.
  double link_share = 0.862;
  /// Part of the hidden communication's time that products lose meanwhile,
  /// since both use the same memory and processors: fitted.
  double interference = 0.240;
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
