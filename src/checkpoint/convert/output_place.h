#pragma once

#include <cairn/checkpoint/convert.h>

#include <filesystem>

namespace cairn::checkpoints {

/// Where a conversion writes: a folder beside the one that is wanted, which
/// takes its name when all is there. A file of torch.save is written into such
/// a folder too, and only the file moved.
class OutputPlace {
 public:
  /// Throws CheckpointError for a name that is taken, unless that is a
  /// checkpoint and to be replaced; ConfigError for one that holds the input.
  explicit OutputPlace(const ConvertOptions& options);
  /// What was not published is deleted.
  ~OutputPlace();
  OutputPlace(const OutputPlace&) = delete;
  OutputPlace& operator=(const OutputPlace&) = delete;

  /// What to write to.
  const std::filesystem::path& path() const { return path_; }
  void publish();

 private:
  std::filesystem::path target_;  ///< what was asked for
  std::filesystem::path partial_; ///< the folder
  std::filesystem::path path_;    ///< the same, or a file in it
  bool file_ = false;             ///< the target is one
};

} // namespace cairn::checkpoints
