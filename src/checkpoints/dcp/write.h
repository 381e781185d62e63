#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/python_value.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace cairn::checkpoints::dcp {

/// A tensor to write, in chunks that tile it. A chunk may lack dimensions of
/// size 1 in front.
struct NewTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  /// The beginning of each chunk, and its values.
  std::vector<std::pair<std::vector<std::int64_t>, LazyTensor>> chunks;
};

/// Writes a folder that torch.distributed.checkpoint reads, `.metadata` last.
/// Chunks are loaded one at a time.
void write_dcp(
    const std::filesystem::path& folder,
    const std::vector<NewTensor>& tensors,
    const std::vector<PythonValue::Member>& objects = {});

} // namespace cairn::checkpoints::dcp
