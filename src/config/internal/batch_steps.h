#pragma once

#include <cairn/config/flags.h>

#include <cstdint>
#include <vector>

namespace cairn::config {

struct ParsedFlags;

/// The global batch from a number of samples on.
struct BatchStep {
  std::int64_t samples = 0;
  std::int64_t batch = 0;

  bool operator==(const BatchStep&) const = default;
};

/// The steps of --step-batch-size-schedule, in order; none without it. A length
/// in tokens counts whole samples. Throws ConfigError.
std::vector<BatchStep> batch_steps(const Flags& flags);

/// Makes the last batch of --step-batch-size-schedule the global batch, unless
/// --global-batch-size says so itself. Throws ConfigError if it says otherwise.
void take_last_batch(ParsedFlags& parsed);

} // namespace cairn::config
