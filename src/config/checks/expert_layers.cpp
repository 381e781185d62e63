#include "config/internal/expert_layers.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn::config {

bool has_experts(const MoeFlags& flags) {
  return std::ranges::any_of(flags.num_experts, [](std::int64_t count) {
    return count > 1;
  });
}

void check_expert_layers(const MoeFlags& flags, std::int64_t layers) {
  if (!has_experts(flags)) {
    return;
  }
  const std::int64_t with = layers / flags.expert_interval;
  if (with == 0) {
    throw ConfigError(
        {.what = fmt::format(
             "none of {} layers would have experts: each {}th has",
             layers,
             flags.expert_interval),
         .where = "--expert-interval"});
  }
  const std::vector<std::int64_t>& counts = flags.num_experts;
  if (counts.size() != 1 && static_cast<std::int64_t>(counts.size()) != with) {
    throw ConfigError(
        {.what = fmt::format(
             "{} numbers, but {} of {} layers have experts; give one for all "
             "or one for each of these",
             counts.size(),
             with,
             layers),
         .where = "--num-experts"});
  }
  for (const std::int64_t count : counts) {
    if (count > 1 && flags.topk > count) {
      throw ConfigError(
          {.what = fmt::format(
               "a token cannot go to {} of {} experts",
               flags.topk,
               count),
           .where = "--topk"});
    }
  }
}

} // namespace cairn::config
