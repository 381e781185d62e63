#include "pretrain/plan/check_curriculum.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <cstdint>

namespace cairn::pretrain {

namespace {

void require_division(
    const RunPlan& plan,
    std::int64_t ranks,
    const char* flag) {
  for (const TokenCount::Part& part : plan.tokens.parts()) {
    if (part.length % ranks != 0) {
      throw ConfigError(
          {.what = "a length of the curriculum does not divide over the ranks",
           .where = flag,
           .values = fmt::format("{} tokens, {} parts", part.length, ranks),
           .remedy = "let min_difficulty, max_difficulty and difficulty_step "
                     "(or the list difficulty) be multiples of it"});
    }
  }
}

} // namespace

void check_curriculum(const config::Config& config, const RunPlan& plan) {
  if (!plan.curriculum) {
    return;
  }
  if (plan.tokens.longest() > plan.sequence_length) {
    throw ConfigError(
        {.what = "a length of the curriculum is above --seq-length",
         .where = "curriculum_learning",
         .values = fmt::format(
             "{} of {} tokens",
             plan.tokens.longest(),
             plan.sequence_length),
         .remedy = "lower max_difficulty, or raise --seq-length"});
  }
  const config::DistributedFlags& flags = config.flags.distributed;
  if (flags.sequence_parallel) {
    require_division(
        plan,
        flags.tensor_parallel * flags.context_parallel,
        "--sequence-parallel");
  }
  if (flags.context_parallel > 1) {
    const bool ring =
        flags.context_parallel_kind == config::ContextParallelKind::ring;
    require_division(
        plan,
        (ring ? 2 : 1) * flags.context_parallel,
        "--context-parallel-size");
  }
}

} // namespace cairn::pretrain
