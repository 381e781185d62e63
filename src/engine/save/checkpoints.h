#pragma once

#include "engine/build/job.h"
#include "engine/build/trained_model.h"
#include "engine/save/checkpoint_writer.h"
#include "engine/save/snapshot.h"
#include "engine/save/training_state.h"
#include "engine/step/progress.h"

#include <cairn/engine/saving.h>
#include <cairn/engine/training_data.h>
#include <cairn/model/description.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace cairn::inline engine {

/// Saves the state of a training and goes on from it. All ranks call every
/// function together.
class Checkpoints {
 public:
  /// The first four arguments outlive it. The description is saved for those
  /// who load the checkpoint elsewhere.
  Checkpoints(
      const Job& job,
      TrainedModel& trained,
      const Progress& progress,
      TrainingState& state,
      std::optional<model::ModelDescription> description);

  /// Saves and restores the place of this loader from now on.
  void set_loader(std::shared_ptr<TrainingLoader::Place> place) {
    loader_ = std::move(place);
  }

  void save(
      const std::filesystem::path& folder,
      const std::optional<std::string>& tag,
      const ClientState& client,
      const SaveOptions& options);
  /// Waits for a save under way; throws CheckpointError if the last one failed.
  void finish();

  using Loaded = std::pair<std::optional<std::filesystem::path>, ClientState>;
  /// Returns the checkpoint that was loaded, unset if there is none, and the
  /// state that the program had saved.
  Loaded load(
      const std::filesystem::path& folder,
      const std::optional<std::string>& tag,
      const LoadOptions& options);
  /// Goes on from a state that no checkpoint of ours holds: tensors and numbers
  /// as a checkpoint and its manifest's "state" have them. Returns the client
  /// state among the numbers.
  ClientState take(
      const checkpoints::Source& tensors,
      const std::string& numbers,
      const LoadOptions& options);
  /// Goes back to the last checkpoint that was saved or loaded here; the data
  /// go on from their place. Returns the checkpoint, unset if there is none.
  std::optional<std::filesystem::path> roll_back();

 private:
  CheckpointWriter& writer();
  void warn_of_gaps(
      const std::filesystem::path& place,
      const SaveOptions& options) const;
  checkpoints::Manifest manifest(
      const std::string& tag,
      const SaveOptions& options) const;
  std::string why_no_manifest(
      const std::filesystem::path& place,
      std::string& text);
  std::string why_not_loaded(
      const std::filesystem::path& place,
      const std::string& manifest,
      const LoadOptions& options,
      ClientState& client);
  ClientState restore(
      const std::filesystem::path& place,
      const std::string& manifest,
      const LoadOptions& options);

  const Job& job_;
  TrainedModel& trained_;
  const Progress& progress_;
  TrainingState& state_;
  std::optional<model::ModelDescription> description_;
  std::shared_ptr<TrainingLoader::Place> loader_;
  struct Place {
    std::filesystem::path folder;
    std::string tag;
  };
  std::optional<Place> last_; ///< saved or loaded here
  Snapshot snapshot_;
  /// The last member, so that it ends first: a save may be under way.
  std::unique_ptr<CheckpointWriter> writer_;
};

} // namespace cairn::engine
