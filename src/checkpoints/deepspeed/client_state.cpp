#include "checkpoints/deepspeed/client_state.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::checkpoints::deepspeed {

namespace {

/// Keys that DeepSpeed itself puts beside the user's own state.
constexpr std::array<std::string_view, 24> own_keys{
    "module",
    "buffer_names",
    "optimizer",
    "param_shapes",
    "frozen_param_shapes",
    "shared_params",
    "frozen_param_fragments",
    "lr_scheduler",
    "data_sampler",
    "random_ltd",
    "sparse_tensor_module_names",
    "csr_tensor_module_names",
    "skipped_steps",
    "global_steps",
    "global_samples",
    "dp_world_size",
    "mp_world_size",
    "checkpoint_parallel_dimensions",
    "ds_config",
    "ds_version",
    "num_experts",
    "universal_checkpoint_info",
    "ds_autoep_layers",
    "autoep_layers"};

} // namespace

PythonValue client_state_in(const PythonValue& model_file) {
  std::vector<PythonValue::Entry> kept;
  for (const auto& entry : model_file.entries()) {
    if (!entry.first.is(PythonValue::Kind::text) ||
        std::ranges::find(own_keys, entry.first.text()) == own_keys.end()) {
      kept.push_back(entry);
    }
  }
  return PythonValue::dict(std::move(kept));
}

} // namespace cairn::checkpoints::deepspeed
