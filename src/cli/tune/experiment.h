#pragma once

#include "cli/tune/candidates.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace cairn::cli {

/// What became of a candidate.
struct Trial {
  enum class Status { measured, out_of_memory, failed, timed_out, skipped };
  Candidate candidate;
  Status status = Status::failed;
  double step_seconds = 0;
  /// Tokens a second of all ranks; samples of another program.
  double rate = 0;
  double memory_bytes = 0; ///< most allocated on rank 0; 0: not known
  std::string why;         ///< it was not measured
};

/// Working files of experiments, deleted with the object.
class WorkFolder {
 public:
  /// Makes a folder beside `neighbour`, where other hosts see it as well.
  explicit WorkFolder(const std::filesystem::path& neighbour);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Trains some steps with the candidate's settings, in processes of its own,
/// through our launcher. `progress` gets the number of the last step. Throws
/// Stopped after Ctrl-C or SIGTERM; no process is left then either.
Trial run_experiment(
    const TuneRequest& request,
    const Candidate& candidate,
    const std::filesystem::path& folder,
    const std::function<void(std::int64_t step)>& progress);

} // namespace cairn::cli
