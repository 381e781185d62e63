#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The machines that a plan is made for, as their descriptions in
// recipes/clusters say.

namespace cairn::plan {

/// A speed that was measured at a size.
struct SpeedAt {
  double size = 0;
  double speed = 0;
};

/// Speeds that were measured at every combination of some sizes.
struct SpeedGrid {
  std::vector<std::vector<double>> axes; ///< the sizes of each kind, growing
  std::vector<double> speeds; ///< those of the last axis side by side
};

/// Operations a second of the products of a linear layer, by tokens, outputs
/// and inputs.
struct ProductSpeeds {
  SpeedGrid forward;
  SpeedGrid input_gradient;
  SpeedGrid weight_gradient;
};

/// Operations a second of fused attention, by the length of the sequence and
/// the size of a head. Where queries see earlier keys alone, half of the
/// products count. A backward pass counts as 2.5 forward ones.
struct AttentionSpeeds {
  SpeedGrid forward;
  SpeedGrid backward;
  SpeedGrid causal_forward;
  SpeedGrid causal_backward;
};

/// Speeds that were measured on a machine. They stand in for its data sheet.
struct MeasuredSpeeds {
  /// Operations a second of matrix products of 32-bit values, by the operations
  /// of one product.
  std::vector<SpeedAt> products;
  /// Operations a second of fused attention of 32-bit values, by the operations
  /// of one call.
  std::vector<SpeedAt> attention;
  std::optional<ProductSpeeds> products_16bit{};    ///< of 16-bit values
  std::optional<ProductSpeeds> products_8bit{};     ///< of 8-bit values
  std::optional<AttentionSpeeds> attention_16bit{}; ///< of 16-bit values
  /// Part of the speeds of 16-bit and 8-bit values that is left in a long run:
  /// the GPU's clock falls when it is warm and has to share its power with the
  /// memory.
  double sustained = 1;
  /// Bytes a second that are read and written, by the bytes of a tensor.
  std::vector<SpeedAt> traffic;
  /// Passes over memory of the element-wise operators of Cairn, in units of the
  /// least that is possible; 0: that of constants.h.
  double passes = 0;
  /// Seconds that an operator takes however little it does, where the processor
  /// that computes is the one that calls it.
  double operator_seconds = 0;
};

/// The speed at a size: between the measured ones on logarithmic axes, and
/// that of the nearest one outside of them.
double speed_at(const std::vector<SpeedAt>& curve, double size);
double speed_at(const SpeedGrid& grid, std::span<const double> sizes);

struct Gpu {
  std::string name;
  double memory_bytes = 0;
  double flops = 0;          ///< a second, dense, in 16 bits, as published
  double flops_8bit = 0;     ///< 0: it has no 8-bit arithmetic
  double bandwidth = 0;      ///< of its memory, bytes a second, as published
  double matmul_share = 0.7; ///< of `flops`, in large products of a long run
  /// Speed of products with a side that is no multiple of 8, of that of others:
  /// cuBLAS before 11 has no tensor cores for them.
  double unaligned_share = 1;
  double flops_32bit = 0; ///< a second, in fp32; 0: not said
  /// Memory that a process needs beside its tensors: for CUDA's kernels and
  /// buffers, and for NCCL's with each kind of group.
  double context_bytes = 0.6e9;
  double group_bytes = 0.15e9;
  bool is_cpu = false;         ///< a rank's share of a CPU stands in for a GPU
  bool cudnn_attention = true; ///< cuDNN has a fused attention for it
  MeasuredSpeeds measured{};
};

/// A level of the network: what connects so many ranks.
struct Level {
  std::string name;
  std::int64_t ranks = 1; ///< that it connects, those of lower levels included
  double bandwidth = 0;   ///< of each rank and direction, bytes a second
  double latency = 0;     ///< of a message, in seconds
};

struct Host {
  double memory_bytes = 0;   ///< of a node
  double copy_bandwidth = 0; ///< to and from each GPU, bytes a second
  double adam_elements = 0;  ///< that a node's CPUs update in a second
  double nvme_bytes = 0;     ///< of a node; 0: there is none
  double nvme_read = 0;      ///< of a node, bytes a second
  double nvme_write = 0;
  double nvme_both = 0; ///< of both, where they are at once; 0: their sum
  double storage = 0;   ///< to where checkpoints are, of a node, bytes a second
  double mttf = 0; ///< mean time to failure of a node, in seconds; 0: never
};

struct Cluster {
  std::string name;
  std::string about;
  Gpu gpu;
  Host host;
  std::int64_t gpus_per_node = 1;
  std::int64_t nodes = 1;    ///< 0: any number
  std::vector<Level> levels; ///< the innermost first
};

/// Reads a description. Throws ConfigError, which begins with `where`.
Cluster cluster_from_json(std::string_view text, const std::string& where);

/// Names of the clusters that come with Cairn.
std::vector<std::string> cluster_names();

/// A cluster by its name, or from a file. Throws ConfigError.
Cluster find_cluster(const std::string& name_or_file);

/// A cluster of GPUs that the driver calls so ("NVIDIA A100-SXM4-80GB"), after
/// a cluster that comes with Cairn and has them; unset if none has.
std::optional<Cluster> gpu_machine(std::string_view driver_name);

/// gpu_machine() with the memory of the host that this process runs on. Disks,
/// if the cluster has them, have room for whatever is offloaded.
std::optional<Cluster> gpu_machine_here(std::string_view driver_name);

/// This machine's CPU as a cluster whose `ranks` share its cores and memory.
/// Its speed is an assumption after the cores' instructions.
Cluster cpu_machine(std::int64_t ranks);

/// The machine that this process runs on, with so many ranks: its GPUs, or
/// where there are none its CPU. Unset for GPUs that gpu_machine() does not
/// know.
std::optional<Cluster> this_machine(std::int64_t ranks);

} // namespace cairn::plan
