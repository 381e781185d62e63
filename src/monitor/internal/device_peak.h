#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn::monitor {

enum class Arithmetic {
  half, ///< fp16 and bf16 matrix products, sums in fp32
  full, ///< fp32
};

/// The peak performance of a device.
struct DevicePeak {
  double flops = 0;     ///< per second
  std::string source{}; ///< "989.5 TFLOP/s of H200 (dense, 16 bits)"
};

/// The peak from the makers' data sheets, without sparsity, by CUDA's name for
/// the device ("NVIDIA H100 80GB HBM3"). Empty for a device that is not in the
/// table.
std::optional<DevicePeak> known_peak(
    std::string_view device,
    Arithmetic arithmetic);

/// The peak that the user states (`--peak-tflops`) or a benchmark has measured.
DevicePeak stated_peak(double teraflops);

} // namespace cairn::monitor
