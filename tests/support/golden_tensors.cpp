#include "support/golden_tensors.h"

#include <cairn/checkpoints/safetensors.h>

namespace cairn::testing {

std::map<std::string, at::Tensor> golden_tensors(
    const std::filesystem::path& path) {
  const checkpoints::SafetensorsFile file(path);
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, entry] : file.entries()) {
    tensors[name] = file.tensor(name);
  }
  return tensors;
}

} // namespace cairn::testing
