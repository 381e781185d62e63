#pragma once

#include <CLI/CLI.hpp>

#include <cairn/data/blend.h>

#include <cstdint>
#include <optional>

namespace cairn::cli {

/// How long a run will be, from which Megatron derives the samples of each
/// split.
struct RunLength {
  std::optional<std::int64_t> train_samples{};
  std::optional<std::int64_t> train_iters{};
  std::int64_t global_batch_size = 0;
  std::int64_t eval_iters = 100;
  std::int64_t eval_interval = 1000;
  bool full_validation = false;

  void add_flags(CLI::App& app);
  /// Without a length of the run there is nothing that the other flags could
  /// change: ConfigError.
  void check_flags(const CLI::App& app) const;

  /// `evaluates`: whether there is data for validation or for the test.
  data::SampleCounts sample_counts(bool evaluates) const;
};

} // namespace cairn::cli
