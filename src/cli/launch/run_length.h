#pragma once

#include <CLI/CLI.hpp>

#include <cairn/data/data_selection.h>

#include <cstdint>
#include <optional>

namespace cairn::cli {

/// The length of a run, from which Megatron derives the samples of each split.
struct RunLength {
  std::optional<std::int64_t> train_samples{};
  std::optional<std::int64_t> train_iters{};
  std::int64_t global_batch_size = 0;
  std::int64_t eval_iters = 100;
  std::int64_t eval_interval = 1000;
  bool full_validation = false;

  void add_flags(CLI::App& app);
  /// Throws ConfigError for flags that have no effect without a length of the
  /// run.
  void check_flags(const CLI::App& app) const;

  /// `evaluates`: true when there is data for validation or for the test.
  data::SampleCounts sample_counts(bool evaluates) const;
};

} // namespace cairn::cli
