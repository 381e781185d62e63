#pragma once

#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/model/family.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::pretrain {

using Kind = model::ModelKind;

/// Why a run came to its end.
enum class Ended {
  done,         ///< it is as long as it was to be
  interval,     ///< --exit-interval
  duration,     ///< --exit-duration-in-mins
  by_signal,    ///< --exit-signal-handler
  nothing_to_do ///< the checkpoint is of its end already
};

struct Outcome {
  Ended ended = Ended::done;
  std::int64_t iteration = 0;
};

/// Trains a model as Megatron's flags and DeepSpeed's JSON say: what
/// `cairn pretrain gpt …` does on every rank.
///
/// Everything that can be checked is checked before anything is allocated:
/// ConfigError.
/// `versions`, of the program and what it stands on, go into the log of the run
/// (--log-jsonl).
Outcome run(
    Kind kind,
    const config::Config& config,
    const distributed::World& world,
    const Logger& logger,
    const std::vector<std::pair<std::string, std::string>>& versions = {});

/// Why it ended, for people: "the training is done".
std::string_view words_for(Ended ended);

/// What run() would do, in words, after all that can be checked without the
/// data and the other ranks. Throws ConfigError.
std::string dry_run(Kind kind, const config::Config& config);

} // namespace cairn::pretrain
