#pragma once

#include "cli/tune/candidates.h"
#include "cli/tune/experiment.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace cairn::cli {

/// The results of a search.
struct Tuning {
  Candidates candidates;
  std::vector<Trial> trials; ///< in the order they ran; the first is as given
  std::optional<std::size_t> best; ///< none if nothing could be measured
};

/// Runs experiments until the trials are used up, or so many bring no gain.
/// Shows its progress on stderr. Throws Stopped after Ctrl-C or SIGTERM.
Tuning tune(const TuneRequest& request);

/// The value that is compared, larger is better: tokens a second of all ranks,
/// model TFLOP/s of a rank, or the seconds of an update with a minus.
double metric_of(const TuneRequest& request, const Trial& trial);

} // namespace cairn::cli
