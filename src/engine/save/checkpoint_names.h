#pragma once

#include <c10/core/Device.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

// The names of an engine's tensors in a checkpoint.

namespace cairn::inline engine {

constexpr std::string_view weight_kind = "weight";
constexpr std::string_view buffer_kind = "buffer";

inline std::string name_of(
    std::string_view kind,
    const std::string& parameter) {
  return fmt::format("{}/{}", kind, parameter);
}

inline std::string number_name(int group, std::string_view name) {
  return fmt::format("group/{}/{}", group, name);
}

inline std::string generator_name(c10::DeviceType device, int rank) {
  return fmt::format("rng/{}/{}", c10::DeviceTypeName(device, true), rank);
}

/// Devices that a rank draws random numbers from.
inline std::vector<c10::Device> generator_devices(c10::Device device) {
  std::vector<c10::Device> devices{c10::Device(c10::kCPU)};
  if (!device.is_cpu()) {
    devices.push_back(device);
  }
  return devices;
}

} // namespace cairn::engine
