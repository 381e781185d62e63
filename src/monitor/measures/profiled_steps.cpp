#include "monitor/internal/profiled_steps.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

namespace cairn::monitor {
namespace {

/// Parses a number; the configuration has checked that it is one.
std::int64_t step_number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

} // namespace

std::vector<StepRange> profiled_steps(
    const config::LoggingFlags& flags,
    std::int64_t rank) {
  const auto& ranks = flags.profile_ranks;
  if (!flags.profile ||
      (!ranks.empty() &&
       std::find(ranks.begin(), ranks.end(), rank) == ranks.end())) {
    return {};
  }
  std::vector<StepRange> steps;
  for (const std::string& text : flags.profile_steps) {
    const std::size_t cut = text.find_first_of("-,");
    const std::int64_t first = step_number(text.substr(0, cut));
    steps.push_back(
        {first, cut == text.npos ? first : step_number(text.substr(cut + 1))});
  }
  if (steps.empty() && flags.profile_step_start < flags.profile_step_end) {
    steps.push_back({flags.profile_step_start + 1, flags.profile_step_end});
  }
  std::sort(
      steps.begin(),
      steps.end(),
      [](const StepRange& a, const StepRange& b) { return a.first < b.first; });
  std::vector<StepRange> apart;
  for (const StepRange& range : steps) {
    if (!apart.empty() && range.first <= apart.back().last) {
      apart.back().last = std::max(apart.back().last, range.last);
    } else {
      apart.push_back(range);
    }
  }
  return apart;
}

std::filesystem::path profiling_folder(const config::LoggingFlags& flags) {
  if (!flags.tensorboard_dir) {
    return "profiling";
  }
  std::filesystem::path folder(*flags.tensorboard_dir);
  if (!folder.has_filename()) { // such as "run/tensorboard/"
    folder = folder.parent_path();
  }
  return folder.parent_path() / "profiling";
}

} // namespace cairn::monitor
