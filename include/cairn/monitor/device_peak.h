#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn::monitor {

enum class Arithmetic {
  half, ///< fp16 and bf16 matrix products, sums in fp32
  full, ///< fp32
};

/// What a device can do at most.
struct DevicePeak {
  double flops = 0;     ///< per second
  std::string source{}; ///< "989.5 TFLOP/s of H200 (dense, 16 bits)"
};

/// From the makers' data sheets, without sparsity, by the name that CUDA gives
/// the device ("NVIDIA H100 80GB HBM3"). None for what is not in the table.
std::optional<DevicePeak> known_peak(
    std::string_view device,
    Arithmetic arithmetic);

/// What the user says instead (`--peak-tflops`), or a benchmark measured.
DevicePeak stated_peak(double teraflops);

} // namespace cairn::monitor
