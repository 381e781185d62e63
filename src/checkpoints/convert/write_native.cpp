#include "checkpoints/convert/native.h"
#include "checkpoints/convert/native_state.h"
#include "checkpoints/internal/checkpoint_folder.h"
#include "checkpoints/internal/slice_file.h"
#include "checkpoints/pickle/python_json.h"
#include "checkpoints/tensors/make_folder.h"

#include <ATen/Functions.h>
#include <c10/util/accumulate.h>
#include <cairn/base/file.h>
#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;

WrittenFile write_tensors(const fs::path& path, const NamedTensors& tensors) {
  SlicePlan plan;
  for (const auto& [name, tensor] : tensors) {
    plan.put(
        {.name = name,
         .shape = tensor.shape,
         .values = at::empty(
             {c10::multiply_integers(tensor.shape)},
             at::TensorOptions(tensor.type).device(at::kMeta))});
  }
  SliceFile file(path, plan.slices());
  for (const auto& [name, tensor] : tensors) {
    file.put(name, tensor);
  }
  return file.finish();
}

} // namespace

void write_native(
    const fs::path& folder,
    Portable& portable,
    const std::string& optimizer) {
  const std::string tag = fmt::format("global_step{}", portable.steps);
  Manifest manifest{
      .tag = tag,
      .step = portable.steps,
      .saved_at = std::chrono::duration_cast<std::chrono::nanoseconds>(
                      std::chrono::system_clock::now().time_since_epoch())
                      .count(),
      .ties = portable.ties,
      .state = native_state(portable, optimizer)};
  if (auto config = json_of(portable.config); config && config->is_object()) {
    manifest.config = {{"deepspeed", std::move(*config)}};
  }
  make_folder(folder / tag);
  add_file(
      manifest,
      write_tensors(
          folder / tag / "rank-00000.safetensors",
          native_tensors(portable)));
  write_file_atomically(folder / tag / manifest_name, to_text(manifest));
  write_latest(folder, tag);
}

} // namespace cairn::checkpoints
