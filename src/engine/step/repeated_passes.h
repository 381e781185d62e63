#pragma once

#include "engine/internal/recording_stream.h"
#include "engine/step/repeated_work.h"

#include <cairn/distributed/process_group.h>
#include <cairn/engine/batch_passes.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace cairn::inline engine {

/// Forward and backward passes of micro batches that are alike, recorded once
/// and then repeated with other inputs.
class RepeatedPasses {
 public:
  /// The place of a micro batch in an update.
  struct Place {
    bool adds = false; ///< adds to the gradients of earlier ones
    bool last = false;
    std::int64_t accumulation = 1; ///< micro batches of the update
    auto operator<=>(const Place&) const = default;
  };

  /// The properties of a pass that must be equal for a recorded pass to be
  /// repeated in its place.
  struct Kind {
    std::vector<std::int64_t> inputs; ///< types and shapes, one after another
    std::int64_t variant = 0;         ///< PassInputs::variant
    Place place;
    auto operator<=>(const Kind&) const = default;
  };

  /// `group` is any group of the job.
  RepeatedPasses(RecordingStream& stream, distributed::ProcessGroup group)
      : stream_(stream), group_(std::move(group)) {}

  static Kind kind_of(const PassInputs& inputs, const Place& place);

  /// True when run() will call `pass` to record it, instead of repeating what
  /// is recorded.
  bool is_new(const Kind& kind) const { return !passes_.contains(kind); }

  /// Runs the pass with these inputs, and returns its losses.
  BatchLoss run(
      const Kind& kind,
      const PassInputs& inputs,
      const std::function<BatchLoss(const PassInputs&)>& pass);

 private:
  struct Pass {
    PassInputs inputs; ///< the memory that the recorded kernels read
    std::unique_ptr<RepeatedWork> work;
    BatchLoss loss; ///< the memory that they write
  };
  Pass record(
      const PassInputs& inputs,
      const std::function<BatchLoss(const PassInputs&)>& pass) const;

  RecordingStream& stream_;
  distributed::ProcessGroup group_;
  std::map<Kind, Pass> passes_;
};

} // namespace cairn::engine
