#include "config/internal/flag.h"

namespace cairn::config {

// Flags of Megatron-LM and Megatron-DeepSpeed that say in other words what
// flags of ours say.
std::span<const OtherWords> other_words() {
  static constexpr OtherWords rows[] = {
      {"data-parallel-sharding-strategy", "no_shard", "--zero-stage 0"},
      {"data-parallel-sharding-strategy", "optim", "--zero-stage 1"},
      {"data-parallel-sharding-strategy", "optim_grads", "--zero-stage 2"},
      {"data-parallel-sharding-strategy",
       "optim_grads_params",
       "--zero-stage 3"},
      {"use-torch-fsdp2", "", "--zero-stage 3"},
      {"fp8-hybrid", "", "--fp8-format hybrid"},
      {"fp8-e4m3", "", "--fp8-format e4m3"},
      {"enable-zbh1-pipeline", "", "--pipeline-schedule zb-h1"},
      {"virtual-pipeline-model-parallel-size",
       "*",
       "--num-virtual-stages-per-pipeline-rank"},
  };
  return rows;
}

} // namespace cairn::config
