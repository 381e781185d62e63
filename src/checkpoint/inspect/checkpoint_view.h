#pragma once

#include <cairn/checkpoint/checkpoint_format.h>
#include <cairn/checkpoint/lazy_tensor.h>
#include <cairn/checkpoint/parameter_group.h>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace cairn::checkpoints {

using Facts = nlohmann::ordered_json;

/// One checkpoint, of whatever format, to look at.
struct CheckpointView {
  CheckpointFormat format = CheckpointFormat::native;
  std::filesystem::path place; ///< its own folder or file
  /// How it was saved, which says nothing of what training goes on with: when,
  /// by how many ranks, …
  Facts about = Facts::object();
  Facts state = Facts::object(); ///< step, optimizer, client state, …
  Facts config = Facts::object();
  NamedTensors weights; ///< and buffers; each once
  NamedTensors states;  ///< "exp_avg/NAME", …: all other tensors
  std::vector<Tie> ties;
  /// Of the tensors that lie in other than one piece.
  std::map<std::string, std::size_t> slices;
  std::vector<std::string> notes; ///< for people: what could not be told
};

/// What models that we know call their weights: as the files do, or as Cairn
/// (model_parameters.h).
enum class WeightNames { stored, cairn };

/// Of a run's folder, `tag` chooses one; without, it is the one that loading
/// takes. Throws CheckpointError for what cannot be read.
CheckpointView view_checkpoint(
    const std::filesystem::path& path,
    const std::string& tag = {},
    WeightNames names = WeightNames::stored);

/// Bytes of the elements.
std::uint64_t bytes_of(const LazyTensor& tensor);
std::uint64_t bytes_of(const NamedTensors& tensors);

} // namespace cairn::checkpoints
