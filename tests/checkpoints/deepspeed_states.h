#pragma once

#include <ATen/Functions.h>
#include <c10/util/accumulate.h>
#include <cairn/checkpoints/deepspeed.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cairn::checkpoints {

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(CAIRN_GOLDEN_DIR) / "checkpoints" / name;
}

/// The content of a golden checkpoint, to be written again.
inline DeepSpeedState golden_state(const std::string& name) {
  const DeepSpeedCheckpoint source({.folder = golden(name)});
  return {
      .parameters = source.weights(),
      .masters = source.masters(),
      .optimizer_states = source.optimizer_states(),
      .groups = source.groups(),
      .global_steps = source.global_steps(),
      .lr_scheduler = source.lr_scheduler(),
      .loss_scaler = source.loss_scaler(),
      .client_state = source.client_state()};
}

inline LazyTensor numbers(std::vector<std::int64_t> shape, float first) {
  return {at::kFloat, shape, [=] {
            const at::Tensor flat = at::arange(
                first,
                first + static_cast<float>(c10::multiply_integers(shape)));
            return flat.mul(0.1F).reshape(shape);
          }};
}

/// A state with ties, buffers, frozen parameters, and sizes that no number of
/// ranks divides.
inline DeepSpeedState odd_state() {
  return {
      .parameters =
          {{"embedding.weight", numbers({7, 3}, 1)},
           {"one", numbers({1}, 50)},
           {"scalar", numbers({}, 60)},
           {"layer.weight", numbers({5, 3, 2}, 70)},
           {"nothing", numbers({0, 4}, 0)}},
      .frozen = {{"frozen.weight", numbers({11}, 200)}},
      .buffers =
          {{"running", numbers({3}, 300)},
           {"count",
            {at::kLong, {}, [] { return at::full({}, 5, at::kLong); }}}},
      .ties = {{"head.weight", "embedding.weight"}},
      .groups =
          {{.names = {"layer.weight", "embedding.weight"}},
           {.names = {"scalar", "nothing", "one"}}},
      .global_steps = 3};
}

} // namespace cairn::checkpoints
