#pragma once

#include "engine/step/progress.h"

#include <cairn/base/log.h>
#include <cairn/config/precision_config.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace cairn::inline engine {

/// Decides what becomes of an update whose gradients are not finite: the loss
/// scale goes down, and at its minimum the run holds, rolls back or stops.
class OverflowPolicy {
 public:
  struct Options {
    config::AtMinimumScale at_minimum = config::AtMinimumScale::stop;
    Logger logger;
    bool speaks = true; ///< this rank logs
    /// Goes back to the last checkpoint and returns it, unset if there is none.
    std::function<std::optional<std::filesystem::path>()> roll_back;
  };
  OverflowPolicy(Progress& progress, Options options);

  enum class Skipped {
    counts,   ///< as a step
    is_undone ///< with others before it
  };
  /// Skips an update. `culprit` is the first parameter whose gradient is not
  /// finite. Throws Error where the run has to stop.
  Skipped skip(const std::string& culprit);

 private:
  Skipped skip_at_minimum(const std::string& culprit);
  void roll_back(const std::string& culprit);
  [[noreturn]] void stop(const std::string& culprit, const std::string& why)
      const;

  Progress& progress_;
  Options options_;
  std::int64_t rolled_back_from_ = -1;
  std::uint64_t held_steps_ = 0; ///< skipped at the smallest loss scale
};

} // namespace cairn::engine
