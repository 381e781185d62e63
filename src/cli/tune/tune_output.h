#pragma once

#include "cli/tune/tuner.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace cairn::cli {

/// The trials for people: predicted beside measured.
std::string tuning_table(const TuneRequest& request, const Tuning& tuning);

/// The reason why no settings can be recommended, and what to do.
std::string why_nothing(const TuneRequest& request, const Tuning& tuning);

nlohmann::ordered_json trial_json(
    const TuneRequest& request,
    const Trial& trial);
nlohmann::ordered_json tuning_json(
    const TuneRequest& request,
    const Tuning& tuning);

/// The trial that trial_json() has written for the same training, candidate
/// and steps; unset if the text is of another one.
std::optional<Trial> trial_from(
    const TuneRequest& request,
    const Candidate& candidate,
    const std::string& text);

/// The figures of a trial as DeepSpeed's engine writes them for its autotuner:
/// `latency` in milliseconds, `throughput` in samples a second.
nlohmann::ordered_json metric_json(const Trial& trial);

/// Writes results.json, and of the best settings best.json (DeepSpeed's) and
/// best.sh; the metric where `autotuning.metric_path` says.
void write_tuning(const TuneRequest& request, const Tuning& tuning);

/// The words of `cairn launch` that train with the best settings.
Arguments best_command(const TuneRequest& request, const Tuning& tuning);

} // namespace cairn::cli
