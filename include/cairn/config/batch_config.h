#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cairn::config {

/// The batch as the user gave it: any of the three may be missing.
struct BatchRequest {
  std::optional<std::int64_t> train_batch_size;
  std::optional<std::int64_t> train_micro_batch_size_per_gpu;
  std::optional<std::int64_t> gradient_accumulation_steps;
};

/// Always consistent: train = micro x accumulation x data_parallel.
struct BatchConfig {
  std::int64_t train = 1;        ///< samples per optimizer step, over all ranks
  std::int64_t micro = 1;        ///< samples per forward pass of one rank
  std::int64_t accumulation = 1; ///< forward passes per optimizer step
  std::int64_t data_parallel = 1;
  bool operator==(const BatchConfig&) const = default;
};

/// Fills in the missing numbers, exactly as DeepSpeed does, and refuses numbers
/// that do not multiply out. `where` starts the message of an error. The only
/// place that knows this rule: JSON files and flags both end up here.
BatchConfig resolve_batch(
    const BatchRequest& request,
    std::int64_t data_parallel_size,
    const std::string& where = "");

/// A line for the start of a run, such as
/// `effective batch 32 = 4 per rank x 4 accumulation x 2 data-parallel`.
std::string describe(const BatchConfig& batch);

} // namespace cairn::config
