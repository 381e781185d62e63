#pragma once

#include "pretrain/plan/run_plan.h"

#include <cairn/config/flags.h>
#include <cairn/optim/schedule.h>

#include <memory>

// Lengths in tokens, for runs whose samples differ in length.

namespace cairn::pretrain {

/// True when the length of the run, warm-up or decay is given in tokens.
bool counts_tokens(const config::Flags& flags);

/// The flags with every length in tokens, as the plan counts them, and a sample
/// of one token. Throws ConfigError for a length that cannot be counted so.
config::Flags in_tokens(config::Flags flags, const RunPlan& plan);

/// A schedule over samples, made from one over tokens.
std::shared_ptr<const optim::Schedule> asked_for_samples(
    std::shared_ptr<const optim::Schedule> by_tokens,
    TokenCount tokens);

} // namespace cairn::pretrain
