#pragma once

#include "checkpoints/internal/checkpoint_folder.h"
#include "checkpoints/internal/slice_file.h"

#include <cairn/base/file.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cairn::checkpoints {

struct Writer {
  std::vector<TensorSlice> slices;
};

/// Saves as an engine does: a file for each writer, then the manifest.
inline void save(
    const std::filesystem::path& folder,
    const std::string& tag,
    const std::vector<Writer>& writers,
    std::int64_t step = 0,
    std::int64_t saved_at = 0) {
  const std::filesystem::path partial = partial_folder(folder, tag, "0");
  std::filesystem::create_directories(partial);
  Manifest manifest{.tag = tag, .step = step, .saved_at = saved_at};
  for (std::size_t i = 0; i < writers.size(); ++i) {
    SlicePlan plan;
    for (const TensorSlice& slice : writers[i].slices) {
      plan.put(slice);
    }
    SliceFile file(
        partial / ("rank-" + std::to_string(i) + ".safetensors"),
        plan.slices());
    for (const TensorSlice& slice : writers[i].slices) {
      file.put(slice);
    }
    add_file(manifest, parse_written_file(to_text(file.finish())));
  }
  write_file_atomically(partial / manifest_name, to_text(manifest));
  publish(partial, folder, tag);
  write_latest(folder, tag);
}

inline TensorSlice whole(const std::string& name, const at::Tensor& values) {
  return {
      .name = name,
      .shape = values.sizes().vec(),
      .values = values.contiguous().view({-1})};
}

} // namespace cairn::checkpoints
