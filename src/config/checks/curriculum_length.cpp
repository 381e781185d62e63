#include "config/internal/curriculum_length.h"

#include "config/table/enum_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace cairn::config {
namespace {

/// The length of fixed_discrete: one after the other, each up to its last step.
/// DeepSpeed stays at the largest length, whatever comes behind it.
std::int64_t listed(const CurriculumConfig& c, std::int64_t step) {
  std::size_t i = 0;
  while (i < c.max_step.size() && step > c.max_step[i] &&
         c.difficulty[i] < *c.max_difficulty) {
    ++i;
  }
  return c.difficulty[i];
}

/// A length that rises with the root of the step.
std::int64_t grown(const CurriculumConfig& c, std::int64_t step, double root) {
  const std::int64_t least = *c.min_difficulty;
  const std::int64_t most = *c.max_difficulty;
  const double way = std::pow(
      static_cast<double>(step) / static_cast<double>(*c.total_curriculum_step),
      1.0 / root);
  const double length = std::floor(
      way * static_cast<double>(most - least) + static_cast<double>(least));
  if (length >=
      static_cast<double>(most) + static_cast<double>(*c.difficulty_step)) {
    return most; // and may be more than an integer holds
  }
  const auto whole = static_cast<std::int64_t>(length);
  return std::min(whole - whole % *c.difficulty_step, most);
}

} // namespace

std::int64_t curriculum_length(const CurriculumConfig& c, std::int64_t step) {
  if (*c.min_difficulty >= *c.max_difficulty) {
    return *c.min_difficulty;
  }
  switch (*c.schedule_type) {
    case CurriculumSchedule::fixed_discrete:
      return listed(c, step);
    case CurriculumSchedule::fixed_root:
      return grown(c, step, static_cast<double>(*c.root_degree));
    case CurriculumSchedule::fixed_linear:
      break;
  }
  return grown(c, step, 1);
}

std::string describe(const CurriculumConfig& c) {
  std::string_view shape;
  for (const auto& [value, name] : EnumNames<CurriculumSchedule>::list) {
    shape = value == *c.schedule_type ? name : shape;
  }
  const bool discrete = *c.schedule_type == CurriculumSchedule::fixed_discrete;
  return fmt::format(
      "{} to {} tokens over {} steps ({})",
      curriculum_length(c, 1),
      discrete ? c.difficulty.back() : *c.max_difficulty,
      discrete ? c.max_step.back() : *c.total_curriculum_step,
      shape);
}

std::string describe(const RandomLtdConfig& ltd) {
  const CurriculumConfig& tokens = ltd.schedule;
  return fmt::format(
      "{} to {} tokens over {} steps in {} of {} layers",
      curriculum_length(tokens, 0),
      *tokens.max_difficulty,
      *tokens.total_curriculum_step,
      ltd.layers.size(),
      *ltd.total_layers);
}

} // namespace cairn::config
