#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

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

  explicit MetricsFile(std::filesystem::path path) : path_(std::move(path)) {}

  /// The next complete line; none if it is not written yet. Lines that are not
  /// such objects are skipped.
  std::optional<Line> next();

 private:
  std::filesystem::path path_;
  std::ifstream file_;
  std::string partial_;
};

} // namespace cairn::cli
