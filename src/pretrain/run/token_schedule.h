#pragma once

#include "pretrain/plan/run_plan.h"

#include <cairn/config/flags.h>
#include <cairn/optim/schedule.h>

#include <memory>

// Lengths in tokens, where samples are not all of one length.

namespace cairn::pretrain {

/// Whether the length of the run or of something in it is given in tokens.
bool counts_tokens(const config::Flags& flags);

/// The same flags with every length in tokens, as the plan counts them, and a
/// sample of one token. Throws ConfigError for a length that cannot be.
config::Flags in_tokens(config::Flags flags, const RunPlan& plan);

/// One that is asked for samples, of one that goes by tokens.
std::shared_ptr<const optim::Schedule> asked_for_samples(
    std::shared_ptr<const optim::Schedule> by_tokens,
    TokenCount tokens);

} // namespace cairn::pretrain
