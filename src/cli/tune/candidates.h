#pragma once

#include "cli/tune/tune_request.h"

#include <cairn/plan/estimate.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cairn::cli {

/// Settings to train with. Those that are unset stay as they are given.
struct Candidate {
  plan::RunLayout layout;
  std::optional<std::int64_t> bucket; ///< zero_optimization.reduce_bucket_size
  std::optional<bool> overlap;        ///< zero_optimization.overlap_comm
  /// Other keys of zero_optimization, each value as JSON text.
  std::map<std::string, std::string> zero;
  std::optional<plan::Estimate> estimate; ///< unset where there is no planner

  bool same_settings(const Candidate& other) const {
    return layout == other.layout && bucket == other.bucket &&
        overlap == other.overlap && zero == other.zero;
  }
};

struct Candidates {
  Candidate given;             ///< the training as it is given
  bool given_fits = true;      ///< as far as that is known
  std::vector<Candidate> best; ///< that fit, in the order to try them
  /// With smaller micro batches than the least one: for when none of `best`
  /// runs.
  std::vector<Candidate> smaller;
  std::int64_t tried = 0;
  std::int64_t too_large = 0;
  std::optional<plan::Estimate> nearest; ///< that does not fit, if none does
};

/// All settings that are possible and fit by plan.
Candidates find_candidates(const TuneRequest& request);

/// Other buckets and overlap for the best settings found so far.
std::vector<Candidate> refinements(
    const TuneRequest& request,
    const Candidate& best);

/// "ZeRO 2, micro batch 4", with degrees above 1.
std::string shown_candidate(const Candidate& candidate);

/// The training with a candidate's settings: flags of `cairn pretrain`, and
/// the DeepSpeed JSON beside them. Without flags for another program.
struct TunedRun {
  Arguments flags;
  std::string deepspeed;
};
TunedRun tuned_run(const TuneRequest& request, const Candidate& candidate);

/// The words behind `cairn launch` that train with these settings, whose JSON
/// is in `file`.
Arguments training_words(
    const TuneRequest& request,
    const Candidate& candidate,
    const Arguments& flags,
    const std::string& file);

} // namespace cairn::cli
