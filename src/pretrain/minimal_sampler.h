#pragma once

#include <cairn/models/transformer.h>

#include <cstdint>
#include <vector>

namespace cairn::pretrain {

struct SampleOptions {
  std::int64_t most_tokens = 256;
  double temperature = 0.8;
  std::int64_t end = -1; ///< stops after it
  std::uint64_t seed = 1;
};

/// Goes on after `tokens`, one token at a time, computing everything anew for
/// each: enough for a look at what a small model has learnt.
std::vector<std::int64_t> sample_tokens(
    models::Transformer& model,
    std::vector<std::int64_t> tokens,
    const SampleOptions& options);

} // namespace cairn::pretrain
