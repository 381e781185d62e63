#pragma once

#include "cli/train/growing_file.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

namespace cairn::cli {

/// The file that a training writes with --log-jsonl, read while it goes on.
class MetricsFile {
 public:
  struct Line {
    std::int64_t step = 0;
    std::optional<double> loss{};            ///< "lm loss"
    std::optional<double> validation_loss{}; ///< "lm loss validation"
    double learning_rate = 0;
    double tokens_per_second = 0;
  };

  explicit MetricsFile(std::filesystem::path path) : file_(std::move(path)) {}

  /// The next complete line; none if it is not written yet. Lines that are not
  /// such objects are skipped.
  std::optional<Line> next();

 private:
  GrowingFile file_;
};

} // namespace cairn::cli
