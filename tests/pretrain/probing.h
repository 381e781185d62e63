#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

// Helpers for the tests of `cairn probe`.

namespace cairn::pretrain::probing {

namespace fs = std::filesystem;
using Tensors = std::map<std::string, at::Tensor>;
using Words = std::vector<std::string>;

inline fs::path golden(const std::string& name) {
  return fs::path(CAIRN_GOLDEN_DIR) / name;
}

inline const Words tensor2{"--tensor-model-parallel-size", "2"};
inline const Words pipeline2{"--pipeline-model-parallel-size", "2"};

inline Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

} // namespace cairn::pretrain::probing
