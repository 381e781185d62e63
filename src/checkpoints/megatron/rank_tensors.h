#pragma once

#include "checkpoints/megatron/args.h"
#include "checkpoints/megatron/rank_files.h"

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/python_value.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::checkpoints::megatron {

/// The tensors of one tensor rank, of all stages, under the names of the whole
/// model.
struct RankTensors {
  struct Entry {
    LazyTensor tensor;
    std::filesystem::path file;
  };
  std::map<std::string, Entry, std::less<>> tensors;
};

struct Contents {
  std::vector<RankTensors> ranks;
  PythonValue first; ///< the whole content of the first rank's file
};

/// Reads all files. Throws CheckpointError for files without a model of
/// Megatron's.
Contents read_contents(const RankFiles& files);

/// The facts that the tensors show; `ranks` is the tensor-parallel size.
ModelFacts facts_of(const RankTensors& rank, std::int64_t ranks);

} // namespace cairn::checkpoints::megatron
