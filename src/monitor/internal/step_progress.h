#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::monitor {

/// A parameter group of the optimizer.
struct GroupProgress {
  double learning_rate = 0;
  /// Adam's two betas, or SGD's one momentum.
  std::vector<double> momentum{};
};

struct StepProgress {
  std::int64_t step = 0;
  std::int64_t skipped = 0; ///< steps skipped after an overflow
  std::vector<GroupProgress> groups;
};

/// `step=10, skipped=0, lr=[0.001, 0.0005], mom=[(0.9, 0.999), (0.9, 0.999)]`,
/// as DeepSpeed prints it: one number alone, several in parentheses, no
/// momentum as 0.0.
std::string to_string(const StepProgress& progress);

} // namespace cairn::monitor
