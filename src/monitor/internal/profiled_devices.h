#pragma once

namespace cairn::monitor {

/// The devices whose work a profiler sees.
enum class ProfiledDevices { cpu, cpu_and_gpu };

} // namespace cairn::monitor
