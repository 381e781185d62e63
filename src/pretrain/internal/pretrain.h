#pragma once

#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/model/description.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::pretrain {

using Kind = model::ModelKind;

/// The reason for the end of a run.
enum class Ended {
  done,         ///< it has reached its full length
  interval,     ///< --exit-interval
  duration,     ///< --exit-duration-in-mins
  by_signal,    ///< --exit-signal-handler
  nothing_to_do ///< the checkpoint is at the end already
};

struct Outcome {
  Ended ended = Ended::done;
  std::int64_t iteration = 0;
};

/// Trains a model as Megatron's flags and DeepSpeed's JSON say; `cairn pretrain
/// gpt …` calls it on every rank.
///
/// Everything that can be checked is checked before anything is allocated:
/// ConfigError. `versions`, of the program and its libraries, go into the log
/// of the run (--log-jsonl).
Outcome run(
    Kind kind,
    const config::Config& config,
    const distributed::World& world,
    const Logger& logger,
    const std::vector<std::pair<std::string, std::string>>& versions = {});

/// The rank that shows the losses and writes their files: --log-rank.
int log_rank(const config::LoggingFlags& flags, int ranks);

/// The reason for the end in words: "the training is done".
std::string_view words_for(Ended ended);

/// A description of what run() would do, after all checks that need neither the
/// data nor the other ranks. Throws ConfigError.
std::string dry_run(Kind kind, const config::Config& config);

} // namespace cairn::pretrain
