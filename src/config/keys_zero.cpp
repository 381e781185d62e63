#include "config/key.h"

namespace cairn::config {
namespace {

using D = DeepSpeedConfig;
using Z = ZeroConfig;

void add_offload_keys(std::vector<Key>& table) {
  using P = OffloadParamConfig;
  using O = OffloadOptimizerConfig;
  KeySection params(
      table,
      "zero_optimization.offload_param",
      "Where stage 3 keeps parameters that are not in use.");
  params.validated();
  params.row().null_allowed = true;
  params.row().default_words = "null";
  params.row().open = [](D& config) { config.zero.offload_param.emplace(); };
  params.key<&D::zero, &Z::offload_param, &P::device>(
      "device",
      "Memory that holds them.");
  params
      .key<&D::zero, &Z::offload_param, &P::nvme_path>(
          "nvme_path",
          "Folder on the NVMe disk.")
      .by_default("required with nvme");
  params
      .key<&D::zero, &Z::offload_param, &P::buffer_count>(
          "buffer_count",
          "Buffers between NVMe and memory.")
      .at_least(0);
  params
      .key<&D::zero, &Z::offload_param, &P::buffer_size>(
          "buffer_size",
          "Elements per buffer.")
      .at_least(0);
  params
      .key<&D::zero, &Z::offload_param, &P::max_in_cpu>(
          "max_in_cpu",
          "Elements kept in CPU memory in front of NVMe.")
      .at_least(0);
  params.key<&D::zero, &Z::offload_param, &P::pin_memory>(
      "pin_memory",
      "Page-locked memory, for copies that overlap.");

  KeySection optimizer(
      table,
      "zero_optimization.offload_optimizer",
      "Where optimizer state is kept; its step then runs on the CPU.");
  optimizer.validated();
  optimizer.row().null_allowed = true;
  optimizer.row().default_words = "null";
  optimizer.row().open = [](D& config) {
    config.zero.offload_optimizer.emplace();
  };
  optimizer.key<&D::zero, &Z::offload_optimizer, &O::device>(
      "device",
      "Memory that holds it.");
  optimizer
      .key<&D::zero, &Z::offload_optimizer, &O::nvme_path>(
          "nvme_path",
          "Folder on the NVMe disk.")
      .by_default("required with nvme");
  optimizer
      .key<&D::zero, &Z::offload_optimizer, &O::buffer_count>(
          "buffer_count",
          "Buffers between NVMe and memory; at least one per state of the "
          "optimizer.")
      .at_least(0);
  optimizer.key<&D::zero, &Z::offload_optimizer, &O::pin_memory>(
      "pin_memory",
      "Page-locked memory, for copies that overlap.");
  optimizer.key<&D::zero, &Z::offload_optimizer, &O::pipeline_read>(
      "pipeline_read",
      "Read the next tile while this one is computed.");
  optimizer.key<&D::zero, &Z::offload_optimizer, &O::pipeline_write>(
      "pipeline_write",
      "Write the last tile while this one is computed.");
  optimizer.key<&D::zero, &Z::offload_optimizer, &O::fast_init>(
      "fast_init",
      "Quick first write of optimizer state to NVMe.");
  optimizer
      .key<&D::zero, &Z::offload_optimizer, &O::ratio>(
          "ratio",
          "Part of the optimizer step done on the CPU (stage 3).")
      .at_least(0)
      .at_most(1);
  optimizer
      .key<&D::zero, &Z::offload_optimizer, &O::super_offload>(
          "super_offload",
          "Scheme for CPU and GPU in one package.")
      .refused("there is one offload scheme");
  optimizer
      .key<&D::zero, &Z::offload_optimizer, &O::cpuadam_cores_perc>(
          "cpuadam_cores_perc",
          "Part of the cores that super_offload uses.")
      .at_least(0)
      .at_most(1)
      .refused("it belongs to super_offload");
}

// Keys of older files, moved to where they live today.
template <typename Move>
Binding<D> moved(Json (*unset)(const D&), Move) {
  return {
      .set =
          [](D& config, const Node& node, const Place& place, const Rules& r) {
            std::optional<bool> wanted;
            read_value(wanted, node, place, r);
            if (wanted.value_or(false)) {
              Move()(config.zero);
            }
          },
      .get = unset,
      .type = [] { return std::string("true or false"); },
      .flag = true};
}

void add_deprecated_keys(KeySection& zero) {
  const auto null = [](const D&) { return Json(nullptr); };
  zero.add(
          "cpu_offload",
          "Old spelling of offload_optimizer with device cpu.",
          moved(
              null,
              [](Z& z) {
                z.offload_optimizer.emplace().device = OffloadDevice::cpu;
              }))
      .moved_to = "offload_optimizer";
  zero.add(
          "cpu_offload_param",
          "Old spelling of offload_param with device cpu.",
          moved(
              null,
              [](Z& z) {
                z.offload_param.emplace().device = OffloadDevice::cpu;
              }))
      .moved_to = "offload_param";
  zero.add(
          "cpu_offload_use_pin_memory",
          "Old switch that DeepSpeed no longer reads.",
          moved(null, [](Z&) {}))
      .without_effect(
          "set pin_memory in offload_param or offload_optimizer instead");
  zero.add(
          "stage3_gather_fp16_weights_on_model_save",
          "Old spelling of stage3_gather_16bit_weights_on_model_save.",
          moved(
              [](const D&) { return Json(false); },
              [](Z& z) { z.gather_16bit_weights_on_model_save = true; }))
      .moved_to = "stage3_gather_16bit_weights_on_model_save";
}

void add_stage3_keys(KeySection& zero) {
  const auto stage3 =
      [&zero]<auto member>(const std::string& name, std::string help)->Key& {
    return zero.key<&D::zero, member>("stage3_" + name, std::move(help))
        .also(name);
  };
  stage3
      .
      operator()<&Z::prefetch_bucket_size>(
          "prefetch_bucket_size",
          "Elements fetched ahead of their use.")
      .at_least(0);
  stage3
      .
      operator()<&Z::param_persistence_threshold>(
          "param_persistence_threshold",
          "Parameters with fewer elements stay whole on every rank.")
      .at_least(0);
  stage3
      .
      operator()<&Z::model_persistence_threshold>(
          "model_persistence_threshold",
          "Elements at most that may stay whole in this way.")
      .at_least(0);
  stage3
      .
      operator()<&Z::max_live_parameters>(
          "max_live_parameters",
          "Elements gathered at any one time.")
      .at_least(0);
  stage3
      .
      operator()<&Z::max_reuse_distance>(
          "max_reuse_distance",
          "A parameter used again within this many elements is not released.")
      .at_least(0);
  stage3.operator()<&Z::gather_16bit_weights_on_model_save>(
      "gather_16bit_weights_on_model_save",
      "Gather whole 16-bit weights when a model is exported.");
  stage3
      .
      operator()<&Z::module_granularity_threshold>(
          "module_granularity_threshold",
          "Modules finer than this are fetched as one.")
      .refused("Cairn fetches by operator, not by module");
  stage3
      .
      operator()<&Z::use_all_reduce_for_fetch_params>(
          "use_all_reduce_for_fetch_params",
          "Gather parameters with an all-reduce.")
      .refused("parameters are gathered with all-gather");
  stage3
      .
      operator()<&Z::allgather_sequential>(
          "allgather_sequential",
          "Gather parameters one by one, without buckets.")
      .refused("parameters are gathered in buckets");
}

} // namespace

void add_zero_keys(std::vector<Key>& table) {
  KeySection zero(
      table,
      "zero_optimization",
      "ZeRO: what is partitioned over the data-parallel ranks, and where it "
      "lives. Sizes count elements.");
  zero.validated();
  zero.key<&D::zero, &Z::stage>(
      "stage",
      "0: nothing; 1: optimizer state; 2: gradients too; 3: parameters too.");
  zero.key<&D::zero, &Z::contiguous_gradients>(
          "contiguous_gradients",
          "Keep gradients in one buffer.")
      .without_effect("gradients always live in flat buckets");
  zero.key<&D::zero, &Z::reduce_scatter>(
      "reduce_scatter",
      "Reduce gradients to their owner instead of to every rank.");
  zero.key<&D::zero, &Z::reduce_bucket_size>(
          "reduce_bucket_size",
          "Elements reduced at a time.")
      .at_least(0);
  zero.key<&D::zero, &Z::use_multi_rank_bucket_allreduce>(
          "use_multi_rank_bucket_allreduce",
          "Reduce the buckets of several owners in one operation.")
      .without_effect("buckets are cut so that this question does not arise");
  zero.key<&D::zero, &Z::allgather_partitions>(
      "allgather_partitions",
      "Gather updated parameters with all-gather rather than broadcasts.");
  zero.key<&D::zero, &Z::allgather_bucket_size>(
          "allgather_bucket_size",
          "Elements gathered at a time.")
      .at_least(0)
      .also(
          "all_reduce_bucket_size",
          "is no key of DeepSpeed's; read as allgather_bucket_size");
  zero.key<&D::zero, &Z::overlap_comm>(
          "overlap_comm",
          "Reduce gradients while backward still runs.")
      .by_default("true at stage 3, else false");
  zero.key<&D::zero, &Z::load_from_fp32_weights>(
      "load_from_fp32_weights",
      "Start from the checkpoint's fp32 weights, not its 16-bit copies.");
  zero.key<&D::zero, &Z::elastic_checkpoint>(
          "elastic_checkpoint",
          "Load a checkpoint at another world size.")
      .without_effect("every checkpoint loads at any world size");
  zero.key<&D::zero, &Z::round_robin_gradients>(
      "round_robin_gradients",
      "Spread gradients over the ranks in turn, so that copies to the CPU "
      "run in parallel.");
  zero.key<&D::zero, &Z::sub_group_size>(
          "sub_group_size",
          "Elements per tile of an offloaded step.")
      .at_least(0);
  zero.key<&D::zero, &Z::ignore_unused_parameters>(
      "ignore_unused_parameters",
      "Whether parameters without a gradient are fine.");
  add_stage3_keys(zero);
  zero.key<&D::zero, &Z::zero_hpz_partition_size>(
          "zero_hpz_partition_size",
          "ZeRO++: ranks that share a second copy of the parameters, for the "
          "gathers after the first; 1: off. Stage 3.")
      .at_least(0);
  zero.key<&D::zero, &Z::zero_quantized_weights>(
      "zero_quantized_weights",
      "ZeRO++: gather weights in 8 bits. Stage 3.");
  zero.key<&D::zero, &Z::zero_quantized_gradients>(
      "zero_quantized_gradients",
      "ZeRO++: reduce gradients in 4 bits. Stages 1 to 3.");
  zero.key<&D::zero, &Z::zero_quantized_nontrainable_weights>(
      "zero_quantized_nontrainable_weights",
      "Keep and gather frozen weights in 8 bits. Stage 3.");
  zero.key<&D::zero, &Z::mics_shard_size>(
      "mics_shard_size",
      "MiCS: ranks that share one copy of the model state; -1: all. Stages 1 "
      "to 3.");
  zero.key<&D::zero, &Z::mics_hierarchical_params_gather>(
      "mics_hierarchical_params_gather",
      "MiCS: gather between nodes first, then within. Stage 3.");
  zero.key<&D::zero, &Z::save_muon_momentum_buffer_in_memory>(
          "save_muon_momentum_buffer_in_memory",
          "Keep Muon's momentum in memory when state goes to NVMe.")
      .refused("all optimizer state goes to the chosen device");
  zero.key<&D::zero, &Z::legacy_stage1>(
          "legacy_stage1",
          "Use DeepSpeed's first stage 1.")
      .refused("there is one stage 1");
  zero.key<&D::zero, &Z::grad_hooks>(
          "grad_hooks",
          "Reduce gradients from hooks during backward.")
      .without_effect("overlap_comm decides this");
  zero.key<&D::zero, &Z::memory_efficient_linear>(
          "memory_efficient_linear",
          "Use DeepSpeed's linear layer.")
      .without_effect("Cairn needs no linear layer of its own for stage 3");
  zero.key<&D::zero, &Z::override_module_apply>(
          "override_module_apply",
          "Replace Module.apply for stage 3.")
      .without_effect("there is no Module.apply to replace");
  zero.key<&D::zero, &Z::pipeline_loading_checkpoint>(
          "pipeline_loading_checkpoint",
          "Load a checkpoint in a pipeline.")
      .without_effect("ranks read only the bytes they need anyway");
  zero.key<&D::zero, &Z::log_trace_cache_warnings>(
          "log_trace_cache_warnings",
          "Say when the recorded order of parameters no longer holds.")
      .without_effect("it is always said");
  zero.key<&D::zero, &Z::enable_sanity_checks>(
          "enable_sanity_checks",
          "Check internal state.")
      .without_effect("the checks are always on");
  add_offload_keys(table);
  KeySection again(table, "zero_optimization");
  again.validated();
  add_deprecated_keys(again);
  again.opaque("zenflow", "ZenFlow's offload scheme.", "ZenFlow is not built");
  again.opaque(
      "zeropp_loco_param",
      "Error feedback of quantised gradients.",
      "LoCo is not built");

  using L = LeafModuleConfig;
  const char* const no_leaves = "Cairn fetches by operator, not by module";
  KeySection leaf(
      table,
      "zero_optimization.leaf_module",
      "Python modules that stage 3 fetches as one.");
  leaf.key<&D::zero, &Z::leaf_module, &L::classes>("classes", "By class name.")
      .by_default("three mixture-of-experts classes")
      .refused(no_leaves);
  leaf.key<&D::zero, &Z::leaf_module, &L::names>("names", "By module name.")
      .refused(no_leaves);
  leaf.key<&D::zero, &Z::leaf_module, &L::name_suffixes>(
          "name_suffixes",
          "By the end of the module name.")
      .refused(no_leaves);

  KeySection top(table, "");
  top.key<&D::zero_allow_untested_optimizer>(
      "zero_allow_untested_optimizer",
      "Let ZeRO run with an optimizer the program brings.");
  top.key<&D::zero_force_ds_cpu_optimizer>(
         "zero_force_ds_cpu_optimizer",
         "Insist on the built-in CPU optimizer when offloading.")
      .refused("offload always uses the built-in CPU optimizer");

  using A = AioConfig;
  KeySection aio(table, "aio", "How the NVMe tier reads and writes files.");
  aio.row().null_allowed = true;
  aio.key<&D::aio, &A::block_size>("block_size", "Bytes per request.")
      .at_least(1);
  aio.key<&D::aio, &A::queue_depth>("queue_depth", "Requests in flight.")
      .at_least(1);
  aio.key<&D::aio, &A::intra_op_parallelism>(
         "intra_op_parallelism",
         "Threads that share one transfer.")
      .at_least(1)
      .also("thread_count");
  aio.key<&D::aio, &A::single_submit>(
      "single_submit",
      "Submit requests one by one instead of in blocks.");
  aio.key<&D::aio, &A::overlap_events>(
      "overlap_events",
      "Submit without waiting for earlier requests.");
  aio.key<&D::aio, &A::use_gds>(
         "use_gds",
         "Move data straight between disk and GPU.")
      .refused("transfers pass through pinned CPU memory");
}

} // namespace cairn::config
