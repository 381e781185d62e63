// `cairn info`: everything that a bug report needs to say about the machine and
// the build, and that a user needs to know before a run.

#include "base/internal/cpu.h"
#include "cli/program/command.h"
#include "cli/program/cuda_report.h"
#include "version.h"

#include <cairn/base/error.h>

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/core.h>
#include <sys/utsname.h>
#include <torch/version.h>

namespace cairn::cli {
namespace {

void row(std::string_view name, std::string_view value) {
  fmt::print("  {:<12} {}\n", name, value);
}

std::string operating_system() {
  utsname name{};
  ::uname(&name);
  return fmt::format("{} {} {}", name.sysname, name.release, name.machine);
}

} // namespace

int run_info(const Arguments& arguments) {
  if (!arguments.empty()) {
    if (arguments[0] != "--help" && arguments[0] != "-h") {
      throw ConfigError(
          {.what = fmt::format("info takes no \"{}\"", arguments[0]),
           .remedy = "run `cairn info`"});
    }
    fmt::print(
        "Usage: cairn info\n\n"
        "Prints versions, devices, memory, SIMD and what is built in.\n");
    return exit_ok;
  }
  const CudaReport cuda = cuda_report();
  fmt::print("Versions\n");
  row("Cairn", version);
  row("libtorch", TORCH_VERSION);
  row("CUDA", cuda.cuda_version);
  row("cuDNN", cuda.cudnn_version);
  row("NCCL", cuda.nccl_version);
  row("compiler", fmt::format("{}, {}", compiler, build_type));
  row("system", operating_system());

  const CpuInfo cpu = CpuInfo::detect();
  fmt::print("\nMachine\n");
  row("CPU",
      fmt::format(
          "{}, {} cores ({} threads) usable",
          cpu.model,
          cpu.physical_cores,
          cpu.logical_cpus));
  row("SIMD",
      fmt::format(
          "{} (libtorch uses {})",
          to_string(cpu.features),
          at::get_cpu_capability()));
  row("memory",
      fmt::format("{:.1f} GiB", double(cpu.memory_bytes) / (1 << 30)));
  row("threads", fmt::format("{} by default", at::get_num_threads()));
  if (cuda.devices.empty()) {
    row("GPU", cuda.no_device_reason);
  }
  for (const std::string& device : cuda.devices) {
    row("GPU", device);
  }

  fmt::print("\nBuilt in\n");
  row("backends", cuda.built_in ? "local, gloo, nccl" : "local, gloo");
  row("GPU parts", cuda.built_in ? "yes" : "no (run ./cairn with CAIRN_GPU=1)");
  return exit_ok;
}

} // namespace cairn::cli
