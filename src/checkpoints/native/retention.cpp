#include "checkpoints/internal/retention.h"

#include <algorithm>
#include <ranges>
#include <tuple>

namespace cairn::checkpoints {

std::vector<std::string> checkpoints_to_delete(
    const std::vector<FoundCheckpoint>& found,
    const Retention& retention,
    std::int64_t saved_step) {
  std::vector<FoundCheckpoint> complete;
  std::ranges::copy_if(
      found,
      std::back_inserter(complete),
      [&](const FoundCheckpoint& one) {
        return one.problem.empty() && one.step <= saved_step;
      });
  std::ranges::sort(complete, {}, [](const FoundCheckpoint& one) {
    return std::tuple(one.saved_at, one.step);
  });
  const std::int64_t count = std::ssize(complete);
  const std::int64_t kept =
      std::max<std::int64_t>(1, retention.keep_last.value_or(count));
  std::vector<std::string> doomed;
  for (std::int64_t i = 0; i < count - kept; ++i) {
    const FoundCheckpoint& one = complete[static_cast<std::size_t>(i)];
    if (!retention.keep_every || one.step % *retention.keep_every != 0) {
      doomed.push_back(one.tag);
    }
  }
  return doomed;
}

} // namespace cairn::checkpoints
