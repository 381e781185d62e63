#pragma once

#include "cli/plan/plan_request.h"
#include "plan/internal/what_if.h"

#include <cairn/plan/estimate.h>

#include <filesystem>
#include <string>
#include <vector>

namespace cairn::cli {

/// "8 tensor x 16 pipeline x 8 data, …"
std::string shown_layout(const plan::RunLayout& layout);
/// "12.3 s", "340 ms"
std::string shown_seconds(double seconds);
std::string shown_gigabytes(double bytes);

/// A JSON array of layouts, the best first.
std::string plan_json(
    const std::vector<plan::Estimate>& layouts,
    const PlanRequest& request);

/// One HTML page that needs no other file. The first layout's timeline is
/// drawn if it has one. `nearest` are layouts that do not fit.
std::string plan_page(
    const std::vector<plan::Estimate>& layouts,
    const std::vector<plan::Estimate>& nearest,
    const PlanRequest& request);

/// The part of a layout's time that is left for training after failures and
/// checkpoints. It is all of the time if the request does not ask for them.
plan::Goodput goodput_of(
    const plan::Estimate& estimate,
    const PlanRequest& request);

/// Days that `tokens` take at an estimate's speed, failures included.
double run_days(
    const plan::Estimate& estimate,
    const PlanRequest& request,
    double tokens);

/// Writes ds.json, flags and launch.sh for a layout into a folder, which is
/// made.
void write_plan(
    const std::filesystem::path& folder,
    const plan::Estimate& estimate,
    const PlanRequest& request);

} // namespace cairn::cli
