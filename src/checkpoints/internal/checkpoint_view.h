#pragma once

#include <cairn/checkpoints/checkpoint_format.h>
#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/stored_group.h>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace cairn::checkpoints {

using Facts = nlohmann::ordered_json;

/// A checkpoint of any format, to look at.
struct CheckpointView {
  CheckpointFormat format = CheckpointFormat::native;
  std::filesystem::path place; ///< its own folder or file
  /// Facts about the saving (time, number of ranks, …). Training does not
  /// continue from these facts.
  Facts about = Facts::object();
  Facts state = Facts::object(); ///< step, optimizer, client state, …
  Facts config = Facts::object();
  NamedTensors weights; ///< weights and buffers, each once
  NamedTensors states;  ///< all other tensors: "exp_avg/NAME", …
  std::vector<Tie> ties;
  /// Number of stored slices of each tensor; only of native checkpoints.
  std::map<std::string, std::size_t> slices;
  /// Facts that could not be found out, for people.
  std::vector<std::string> notes;
};

/// Names for the weights of models that we know: those in the files, or Cairn's
/// (model/parameters.h).
enum class WeightNames { stored, cairn };

/// Views a checkpoint. In a run's folder `tag` chooses one; without a tag it is
/// the one that loading takes. Throws CheckpointError if it cannot be read.
CheckpointView view_checkpoint(
    const std::filesystem::path& path,
    const std::string& tag = {},
    WeightNames names = WeightNames::stored);

/// Size of the elements in bytes.
std::uint64_t bytes_of(const LazyTensor& tensor);
std::uint64_t bytes_of(const NamedTensors& tensors);

} // namespace cairn::checkpoints
