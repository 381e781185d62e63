#pragma once

#include "checkpoints/megatron/args.h"
#include "checkpoints/megatron/rank_files.h"

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/checkpoints/python_value.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::checkpoints::megatron {

/// A parameter in the order of a file.
struct OrderedParameter {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// The tensors of one tensor rank, of all stages, under the names of the whole
/// model.
struct RankTensors {
  struct Entry {
    LazyTensor tensor;
    std::filesystem::path file;
  };
  std::map<std::string, Entry, std::less<>> tensors;
  bool fused_norms = false; ///< the file has Transformer Engine's names
};

/// The parameters that a rank's file has, in its order.
struct FileOrder {
  std::size_t tensor = 0; ///< the tensor rank
  std::size_t expert = 0; ///< the expert parallel rank
  std::filesystem::path file;
  std::vector<OrderedParameter> parameters;
};

/// The tensors in the files of a checkpoint, under Megatron's names.
struct Contents {
  /// One for each tensor rank. Files without ranks have one.
  std::vector<RankTensors> ranks;
  /// All files of ranks that hold parameters; empty where there are none.
  std::vector<FileOrder> files;
  MegatronNames names = MegatronNames::legacy; ///< `core_local` for any core's
  /// The content of the first rank's file, or what there is in its place: args,
  /// checkpoint_version, iteration, …
  PythonValue first;
  std::filesystem::path where; ///< the file of `first`
  MegatronSplit split;
  bool split_is_of_files = true; ///< false where the files have no ranks
  /// Number of blocks in one rank's tensor that have queries, keys and values
  /// of their own; more than 1 where the ranks of other files were joined.
  std::int64_t head_blocks = 1;
  /// Size of the vocabulary, where the files say it apart from the args.
  std::optional<std::int64_t> vocabulary;
  bool has_optimizer = false;
  bool has_random_states = false;
};

/// Reads the files of all ranks. Throws CheckpointError for files without a
/// model of Megatron's.
Contents read_rank_files(const RankFiles& files);

/// The number of experts in a layer that the args of a file say; 1 without.
std::int64_t experts_in_args(const PythonValue& content);

/// Adds a tensor. Throws CheckpointError if there is one of the name already.
void add_tensor(
    RankTensors& rank,
    const std::string& name,
    LazyTensor tensor,
    const std::filesystem::path& file);

/// Throws CheckpointError for tensors of models that are not read.
void expect_model(const Contents& contents);

/// The facts that the tensors show.
ModelFacts facts_of(const Contents& contents);

} // namespace cairn::checkpoints::megatron
