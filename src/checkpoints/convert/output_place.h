#pragma once

#include <cairn/checkpoints/convert.h>

#include <filesystem>

namespace cairn::checkpoints {

/// The place where a conversion writes: a folder beside the wanted one, which
/// gets its name when everything is written. A file of torch.save is written
/// into such a folder, too, and only the file is moved.
class OutputPlace {
 public:
  /// Throws CheckpointError for a name that is taken, unless it is that of a
  /// checkpoint to be replaced; ConfigError for an output that holds the input.
  explicit OutputPlace(const ConvertOptions& options);
  /// Deletes what was not published.
  ~OutputPlace();
  OutputPlace(const OutputPlace&) = delete;
  OutputPlace& operator=(const OutputPlace&) = delete;

  /// The folder or file to write to.
  const std::filesystem::path& path() const { return path_; }
  void publish();

 private:
  std::filesystem::path target_;  ///< the output that was asked for
  std::filesystem::path partial_; ///< the folder beside it
  std::filesystem::path path_;    ///< `partial_`, or a file in it
  bool file_ = false;             ///< true when the target is a file
};

} // namespace cairn::checkpoints
