#pragma once

#include <cairn/model/description.h>
#include <cairn/plan/cluster.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cairn::plan {

/// Activations that backward computes again instead of keeping them.
enum class Recompute { nothing, scores, blocks };
/// The memory in which something is kept.
enum class Place { device, cpu, nvme };

/// How a program executes a model, as far as time and memory depend on it.
/// Cairn's own values are the defaults; the published tables come from others.
struct Program {
  /// True if it is Cairn.
  bool is_cairn = true;
  /// How element-wise operations are compiled: GELU and softmax as several
  /// operations each, as of old; one kernel for each, as in PyTorch; the usual
  /// ones fused, as in Megatron; or all that can be.
  enum class Elementwise { pieces, eager, fused, compiled };
  Elementwise elementwise = Elementwise::compiled;
  /// Scores are written to memory, or attention is one kernel that leaves
  /// masked ones out: PyTorch's, or the faster one of cuDNN's kind.
  enum class Attention { scores, flash, fast };
  Attention attention = Attention::fast;
  bool flash() const { return attention != Attention::scores; }
  /// Reductions of gradients run beside backward.
  bool overlaps_gradients = true;
  /// Bytes of a gradient on the wire.
  double reduced_bytes = 2;
  /// Stage 3's gathers run beside products.
  bool overlaps_gathers = true;
  /// Stages 1 and 2 gather what a step has changed beside the next forward
  /// pass.
  bool gathers_ahead = false;
  /// Messages of tensor parallelism run beside products.
  bool overlaps_tensor = false;
  /// How the head computes its loss: all logits at once, with `logit_bytes` for
  /// each at the peak; or, as Cairn does, some tokens at a time with their
  /// gradients, fewer of them on a CPU.
  enum class Loss { whole, chunks, chunks_of_cpu };
  Loss loss = Loss::chunks;
  double logit_bytes = 0;
  /// Kept for backward, of what the layers' formula says.
  double kept_share = 1;
  /// True if the inputs of products in 8 bits are kept for backward in 8 bits;
  /// false if in 16.
  bool keeps_eight_bit = true;
  /// Bytes of each weight's copies in 8 bits, which stay from update to update.
  double eight_bit_copies = 0;
  /// A gated MLP keeps its two factors and their product; else the factor
  /// before its activation, too.
  bool fused_gate = true;
  /// Part of the tokens whose words the head scores: BERT's masked ones.
  double scored_share = 1;
  /// Elements of a bucket of gradients; 0: as many as Cairn takes, and no more
  /// than `bucket_limit`.
  double bucket_elements = 0;
  std::int64_t bucket_limit = 500'000'000;
  /// Buffers of that size that ranks need to talk.
  double bucket_copies = 2;
  /// Bytes of a parameter in ZeRO++'s second copy; 0: as on the wire.
  double second_copy_bytes = 0;
  /// Most elements of gathered parameters; 0: those of two blocks.
  double live_elements = 0;
  /// Memory that is lost between live tensors.
  double fragmentation = 0;
  /// Bytes that an update moves beside the optimizer's own, for each gradient
  /// that a rank holds: flattening, copies, checks for overflow, norms.
  double step_bytes = 0;
  /// Numbers that the host waits for during an update, for each tensor of
  /// gradients.
  double step_reads = 0;
  /// Stage 1 sums whole gradients on all ranks, as stage 0 does.
  bool reduces_whole = false;
};

/// Bytes of the training state of each parameter.
struct StateBytes {
  double parameter = 2;
  double gradient = 4;
  double master = 4;
  double moments = 8;
};

/// The model and its data, whatever the layout.
struct Training {
  model::ModelDescription model; ///< its sizes with the vocabulary's padding
  std::int64_t sequence = 0;
  std::int64_t decoder_sequence = 0; ///< of T5's decoder
  double value_bytes = 2;            ///< of an activation; 4: fp32
  StateBytes states;
  bool eight_bit = false; ///< products of the blocks in 8 bits
  Program program;

  /// Tokens of a sample.
  std::int64_t tokens() const { return sequence + decoder_sequence; }
};

/// How a run is laid out on ranks.
struct RunLayout {
  std::int64_t gpus = 1;
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  std::string schedule = "1f1b";
  std::int64_t chunks = 1;
  /// The cut of the layers into chunks of stages, as pipeline::partition()
  /// gives it; empty: Cairn's own.
  std::vector<int> cuts{};
  int zero_stage = 0;
  std::int64_t micro_batch = 1;
  std::int64_t global_batch = 1;
  bool sequence_parallel = false;
  Recompute recompute = Recompute::scores;
  /// The number of blocks that Recompute::blocks computes again, the first ones
  /// of each stage; 0: all.
  std::int64_t recomputed_blocks = 0;
  /// The number of neighbouring blocks that are computed again together, for
  /// which one input is kept.
  std::int64_t recomputed_together = 1;
  /// Inputs of recomputed blocks are in the host's memory.
  bool inputs_on_host = false;
  /// … each tensor parallel rank has its part of them.
  bool inputs_cut = false;
  /// Parts of a block that are computed again where the whole block is not.
  bool recompute_norms = false;
  bool recompute_mlps = false;
  bool recompute_mixtures = false;
  bool recompute_expert_activations = false;
  Place optimizer = Place::device;
  Place parameters = Place::device;
  double offloaded = 1;           ///< part of the optimizer that is offloaded
  double offloaded_to_host = 0;   ///< part on the host although it goes to NVMe
  bool update_on_gpu = false;     ///< offloaded states visit the GPU
  std::int64_t visit_buffers = 4; ///< of the GPU, for a bucket's states each
  std::int64_t shard_ranks = 0;   ///< that share the states; 0: all
  /// On the wire, of gathers and of reductions; 16: as they are computed.
  int weight_bits = 16;
  int gradient_bits = 16;
  std::int64_t second_copy_ranks = 0; ///< ZeRO++'s second copy of parameters

  std::int64_t data() const { return gpus / (tensor * pipeline * context); }
  std::int64_t micro_batches() const {
    return global_batch / (micro_batch * data());
  }
  bool operator==(const RunLayout&) const = default;
};

/// Bytes of the rank that needs the most, by component.
struct MemoryParts {
  double parameters = 0;
  double gradients = 0;
  double master_weights = 0;
  double optimizer = 0;
  double buckets = 0;
  double gathered_parameters = 0;
  double activations = 0; ///< kept for backward, of all live micro batches
  double working = 0;     ///< of the block that is computed
  double logits = 0;      ///< with what the loss needs beside them
  double context = 0;     ///< CUDA's and NCCL's own
  double fragmentation = 0;
  double total() const;
};

/// Seconds of an iteration on the stage that takes longest.
struct TimeParts {
  double products = 0;
  double attention = 0;
  double elementwise = 0;
  double recompute = 0; ///< products, attention and element-wise, once more
  double host = 0;      ///< the GPU waits for kernels to be launched
  double tensor = 0;    ///< messages of tensor and context parallelism
  double experts = 0;   ///< messages of expert parallelism
  double bubble = 0;    ///< the stage waits for others
  double straggler = 0; ///< what a slow GPU adds
  double gathers = 0;   ///< parameters, as far as nothing hides them
  double gradients = 0; ///< likewise
  double optimizer = 0;
  double offload = 0;
  double total() const;
};

struct TimedPass {
  char kind = 'F'; ///< F, B or W
  int micro_batch = 0;
  int chunk = 0;
  double begin = 0;
  double end = 0;
};

struct Estimate {
  RunLayout layout;
  MemoryParts memory;
  double host_bytes = 0; ///< of a node
  double nvme_bytes = 0; ///< of a node
  bool fits = false;
  std::string lacks; ///< what does not fit and by how much
  TimeParts time;
  double iteration_seconds = 0;
  double tokens_per_second_per_gpu = 0;
  /// Operations of the model alone, with attention counted as if it had no
  /// mask: Megatron's formula of 72 B s l h^2 (…).
  double model_tflops_per_gpu = 0;
  /// The same with what is computed again: 96 B s l h^2 (…) if that is all.
  double hardware_tflops_per_gpu = 0;
  double mfu = 0; ///< model_tflops_per_gpu of what the GPU is said to reach
  std::string limited_by;
  double parameters = 0; ///< of the model
  int heaviest_stage = 0;
  double message_seconds = 0; ///< from a stage to the next, of a micro batch
  /// Passes of every stage, if they were asked for.
  std::vector<std::vector<TimedPass>> timeline;
};

struct EstimateOptions {
  bool timeline = false; ///< keep the passes, and simulate all micro batches
  /// One GPU of the busiest stage computes this many times as long.
  double straggler = 1;
};

/// Memory and time of a run, without running it. Throws ConfigError for a
/// layout that cannot be: degrees that do not divide, more stages than layers.
Estimate estimate(
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster,
    const EstimateOptions& options = {});

/// The name of a component and its bytes, in the order of MemoryParts.
std::vector<std::pair<std::string, double>> parts_of(const MemoryParts& memory);
std::vector<std::pair<std::string, double>> parts_of(const TimeParts& time);

} // namespace cairn::plan
