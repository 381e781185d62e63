#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace cairn::testing {

/// All tensors of a safetensors file.
std::map<std::string, at::Tensor> golden_tensors(
    const std::filesystem::path& path);

} // namespace cairn::testing
