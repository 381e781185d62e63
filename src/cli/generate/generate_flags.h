#pragma once

#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/generate/generate.h>

#include <cstdint>

namespace cairn::cli {

/// Whether a checkpoint must be named. A plan needs none where flags describe
/// the model.
enum class Checkpoint { named, any };

/// Throws ConfigError for flags that neither generation nor training acts on,
/// for flags that contradict each other, and when no checkpoint is named. Logs
/// the warnings of the configuration, and the flags that are about training
/// alone.
void check_generate_flags(
    const config::Config& config,
    const Logger& logger,
    Checkpoint checkpoint = Checkpoint::named);

/// Throws ConfigError unless the flags divide the model over as many ranks as
/// there are. One rank has the whole model, whatever the flags say.
void check_ranks(const config::Config& config, int ranks, const Logger& logger);

/// Texts that are computed together.
std::int64_t texts_at_once(const config::Config& config);

/// How tokens are chosen.
generate::GenerateOptions generate_options(const config::Config& config);

/// How texts are computed.
generate::TextBatchOptions batch_options(const config::Config& config);

} // namespace cairn::cli
