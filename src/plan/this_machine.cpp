#include "base/internal/cpu.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/plan/cluster.h>

#include <algorithm>
#include <filesystem>
#include <limits>

namespace cairn::plan {
namespace {

/// True if the driver's name of a GPU, "NVIDIA A100-SXM4-80GB", has every part
/// of a description's, "A100-80GB".
bool names_match(std::string_view driver, std::string_view described) {
  while (!described.empty()) {
    const auto end = std::min(described.find_first_of("- "), described.size());
    if (driver.find(described.substr(0, end)) == std::string_view::npos) {
      return false;
    }
    described.remove_prefix(std::min(end + 1, described.size()));
  }
  return true;
}

/// The driver's descriptions of the GPUs.
std::vector<std::string> gpus_here() {
  std::vector<std::string> gpus;
  std::error_code none;
  constexpr std::uint64_t most = 1 << 16;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    try {
      gpus.push_back(read_file(entry.path() / "information", most));
    } catch (const DataError&) {
      // Hidden from this container.
    }
  }
  return gpus;
}

} // namespace

std::optional<Cluster> gpu_machine(std::string_view driver_name) {
  for (const std::string& name : cluster_names()) {
    Cluster cluster = find_cluster(name);
    if (names_match(driver_name, cluster.gpu.name)) {
      cluster.nodes = 0; // any number of them
      return cluster;
    }
  }
  return std::nullopt;
}

std::optional<Cluster> gpu_machine_here(std::string_view driver_name) {
  std::optional<Cluster> cluster = gpu_machine(driver_name);
  if (cluster) {
    const CpuInfo cpu = CpuInfo::detect();
    cluster->host.memory_bytes = static_cast<double>(cpu.memory_bytes);
    if (cluster->host.nvme_bytes > 0) {
      cluster->host.nvme_bytes = std::numeric_limits<double>::infinity();
    }
  }
  return cluster;
}

Cluster cpu_machine(std::int64_t ranks) {
  const CpuInfo cpu = CpuInfo::detect();
  const auto share = static_cast<double>(ranks);
  const bool wide = cpu.features.avx2 || cpu.features.avx512f;
  // A clock of 2.5 GHz, two vector units, 8 GB/s from memory for each core.
  constexpr double clock = 2.5e9;
  const double cores = static_cast<double>(std::max(1, cpu.physical_cores));
  const double flops = cores * clock * (wide ? 32 : 16) / share;
  const double bandwidth = 8e9 * cores / share;
  return {
      .name = "this machine",
      .about = "a CPU, whose cores and memory the ranks share",
      .gpu =
          {.name = cpu.model,
           .memory_bytes = static_cast<double>(cpu.memory_bytes) / share,
           .flops = flops,
           .bandwidth = bandwidth,
           .matmul_share = 0.7,
           .flops_32bit = flops,
           .context_bytes = 0.17e9, // libtorch's own
           .group_bytes = 0,
           .is_cpu = true},
      .host =
          {.memory_bytes = static_cast<double>(cpu.memory_bytes),
           .copy_bandwidth = bandwidth,
           .adam_elements = 0.2e9 * cores},
      .gpus_per_node = ranks,
      .nodes = 0,
      .levels = {
          {.name = "memory",
           .ranks = ranks,
           .bandwidth = bandwidth / 2,
           .latency = 20e-6}}};
}

std::optional<Cluster> this_machine(std::int64_t ranks) {
  const std::vector<std::string> gpus = gpus_here();
  if (!gpus.empty()) {
    std::optional<Cluster> cluster = gpu_machine_here(gpus.front());
    if (cluster) {
      cluster->gpus_per_node = static_cast<std::int64_t>(gpus.size());
    }
    return cluster;
  }
  if (std::filesystem::exists("/dev/nvidiactl")) {
    return std::nullopt; // GPUs whose names are hidden
  }
  return cpu_machine(ranks);
}

} // namespace cairn::plan
