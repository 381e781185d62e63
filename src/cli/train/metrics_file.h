#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace cairn::cli {

/// What a training writes with --log-jsonl, read while it goes on.
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

  /// The next line that is complete, or none before it is. Lines that are no
  /// such objects are left out.
  std::optional<Line> next();

 private:
  std::filesystem::path path_;
  std::ifstream file_;
  std::string partial_;
};

} // namespace cairn::cli
