#pragma once

#include "checkpoints/dcp/metadata.h"

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/python_value.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace cairn::checkpoints::dcp {

/// True when torch.distributed.checkpoint wrote into the folder.
bool is_dcp(const std::filesystem::path& folder);

/// The number in a folder's name, such as 10 in `step-10`.
std::optional<std::int64_t> step_of(const std::filesystem::path& folder);

/// The folder itself if torch wrote into it, or that of its folders `step-10`,
/// … with the highest number; nullopt if there is none.
std::optional<std::filesystem::path> newest_step(
    const std::filesystem::path& folder);

/// True for the name of a tensor that belongs to an optimizer, a schedule or a
/// data loader, by torchtitan's and Megatron's habits.
bool is_training_state(const std::string& name);

/// A folder of torch.distributed.checkpoint. Its tensors and objects stay
/// readable when the folder object is gone.
class Folder {
 public:
  /// Reads `.metadata` and maps the files that it names. Throws CheckpointError
  /// where one is missing or too short.
  explicit Folder(const std::filesystem::path& folder);

  const Metadata& metadata() const;

  /// A tensor, put together from its chunks when it is read.
  LazyTensor tensor(const std::string& name) const;
  /// One of the equal parts that a tensor has along its first dimension,
  /// without that dimension.
  LazyTensor layer(const std::string& name, std::int64_t layer) const;
  PythonValue object(const std::string& name) const;

 private:
  struct Files;
  std::shared_ptr<const Files> files_;
};

} // namespace cairn::checkpoints::dcp
