#include "config/flag.h"

namespace cairn::config {

void add_distributed_flags(std::vector<Flag>& table) {
  using F = Flags;
  using D = DistributedFlags;
  FlagGroup group(table, "distributed");
  group
      .flag<&F::distributed, &D::tensor_parallel>(
          "--tensor-model-parallel-size",
          "Ranks that split every layer.")
      .at_least(1)
      .also(
          "--model-parallel-size",
          "is the old name of --tensor-model-parallel-size");
  group
      .flag<&F::distributed, &D::pipeline_parallel>(
          "--pipeline-model-parallel-size",
          "Stages that the layers are shared out to.")
      .at_least(1)
      .same_as("pipeline.stages");
  group
      .flag<&F::distributed, &D::context_parallel>(
          "--context-parallel-size",
          "Ranks that share one sequence.")
      .at_least(1);
  group
      .flag<&F::distributed, &D::ds_sequence_parallel>(
          "--ds-sequence-parallel-size",
          "The same by exchange of heads, as DeepSpeed's.")
      .at_least(1);
  group.flag<&F::distributed, &D::context_parallel_kind>(
      "--cp-comm-type",
      "Ring attention (p2p), or exchange of heads as Ulysses (a2a).");
  group
      .flag<&F::distributed, &D::expert_parallel>(
          "--expert-model-parallel-size",
          "Ranks that share out the experts.")
      .at_least(1)
      .also("--moe-expert-parallel-size");
  group.flag<&F::distributed, &D::sequence_parallel>(
      "--sequence-parallel",
      "Split norms and dropout along the sequence over the tensor-parallel "
      "ranks.");
  group
      .flag<&F::distributed, &D::layers_per_virtual_stage>(
          "--num-layers-per-virtual-pipeline-stage",
          "Layers per virtual stage of the interleaved schedule, which this "
          "chooses.")
      .at_least(1);
  group
      .flag<&F::distributed, &D::virtual_stages>(
          "--num-virtual-stages-per-pipeline-rank",
          "The same by their number.")
      .at_least(1);
  group.flag<&F::distributed, &D::pipeline_schedule>(
      "--pipeline-schedule",
      "Order of work in the pipeline.");
  group.flag<&F::distributed, &D::no_pipeline_parallel>(
      "--no-pipeline-parallel",
      "The plain engine, even where a pipeline of one stage would do.");
  group.flag<&F::distributed, &D::ddp_impl>(
      "--DDP-impl",
      "Reduce gradients after backward (local), or overlapped (torch): "
      "zero_optimization.overlap_comm in JSON.");
  group.flag<&F::distributed, &D::overlap_grad_reduce>(
      "--overlap-grad-reduce",
      "The same as --DDP-impl torch.");
  group.flag<&F::distributed, &D::overlap_param_gather>(
      "--overlap-param-gather",
      "Gather updated parameters while the next forward runs.");
  group.flag<&F::distributed, &D::use_distributed_optimizer>(
      "--use-distributed-optimizer",
      "Partition optimizer state: the same as --zero-stage 1.");
  group
      .flag<&F::distributed, &D::backend>(
          "--distributed-backend",
          "Library for collectives.")
      .by_default("nccl on GPUs, gloo on CPUs");
  group
      .flag<&F::distributed, &D::timeout_minutes>(
          "--distributed-timeout-minutes",
          "Minutes after which a collective has failed.")
      .at_least(1);
  group
      .flag<&F::distributed, &D::local_rank>(
          "--local_rank",
          "Rank within the node, filled in by the launcher; -1: none.")
      .at_least(-1);
}

} // namespace cairn::config
