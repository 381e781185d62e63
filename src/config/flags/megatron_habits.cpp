#include "config/flags/megatron_habits.h"

#include "config/table/setting.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::config {

namespace {

/// Flags that were given by the other of two names.
std::vector<std::string> given_as(
    const ParsedFlags& parsed,
    std::initializer_list<std::pair<const char*, std::string_view>> names) {
  std::vector<std::string> found;
  for (const auto& [name, spelling] : names) {
    const auto place = parsed.given.find(name);
    if (place != parsed.given.end() &&
        same_name(place->second.name, spelling)) {
      found.emplace_back(spelling);
    }
  }
  return found;
}

/// Megatron-LM has experts in every layer, two for a token, and drops none of
/// their tokens unless told how many find room; Megatron-DeepSpeed has them in
/// every other layer, one for a token, and drops.
void follow_experts(ParsedFlags& parsed) {
  const std::vector<std::string> theirs = given_as(
      parsed,
      {{"--topk", "--moe-router-topk"},
       {"--moe-loss-coeff", "--moe-aux-loss-coeff"},
       {"--moe-train-capacity-factor", "--moe-expert-capacity-factor"},
       {"--moe-layer-freq", "--moe-layer-freq"}});
  if (theirs.empty() || !parsed.given.contains("--num-experts")) {
    return;
  }
  MoeFlags& flags = parsed.flags.moe;
  std::vector<std::string_view> followed;
  const auto follow =
      [&](const char* flag, auto& member, auto value, std::string_view words) {
        if (!parsed.given.contains(flag) && member != value) {
          member = value;
          followed.push_back(words);
        }
      };
  follow(
      "--expert-interval",
      flags.expert_interval,
      std::int64_t{1},
      "--expert-interval 1");
  follow("--topk", flags.topk, std::int64_t{2}, "--topk 2");
  follow("--moe-loss-coeff", flags.loss_coeff, 0.0, "--moe-loss-coeff 0");
  if (!parsed.given.contains("--moe-train-capacity-factor")) {
    follow(
        "--disable-moe-token-dropping",
        flags.token_dropping,
        false,
        "--disable-moe-token-dropping");
  }
  follow(
      "--disable-moe-top2-2nd-expert-sampling",
      flags.second_expert_sampling,
      false,
      "--disable-moe-top2-2nd-expert-sampling");
  if (!followed.empty()) {
    parsed.warnings.push_back(fmt::format(
        "{} is Megatron-LM's, whose defaults for experts are taken: {}",
        theirs.front(),
        fmt::join(followed, " ")));
  }
}

/// Megatron-LM's fp8 goes by earlier updates unless told otherwise, and these
/// flags are about nothing else.
void follow_fp8(ParsedFlags& parsed) {
  constexpr std::array about_history{
      "--fp8-amax-history-len",
      "--fp8-amax-compute-algo",
      "--fp8-margin"};
  const auto given = std::ranges::find_if(about_history, [&](const char* flag) {
    return parsed.given.contains(flag);
  });
  if (given == about_history.end() || parsed.given.contains("--fp8-recipe") ||
      !parsed.given.contains("--fp8-format")) {
    return;
  }
  parsed.flags.precision.fp8_recipe = Fp8Recipe::delayed;
  parsed.warnings.push_back(fmt::format(
      "{} means --fp8-recipe delayed, which is Megatron-LM's default",
      *given));
}

/// --activations-checkpoint-method, of scripts from before 2022, recomputes
/// whole layers by itself.
void follow_recompute(ParsedFlags& parsed) {
  const bool theirs =
      !given_as(
           parsed,
           {{"--recompute-method", "--activations-checkpoint-method"}})
           .empty();
  if (theirs && !parsed.given.contains("--recompute-granularity")) {
    parsed.flags.training.recompute_granularity = RecomputeGranularity::full;
  }
}

/// Norms and dropout are whole on the one tensor-parallel rank, as in Megatron.
void follow_sequence_parallel(ParsedFlags& parsed) {
  DistributedFlags& flags = parsed.flags.distributed;
  if (flags.sequence_parallel && flags.tensor_parallel == 1) {
    flags.sequence_parallel = false;
    flags.tp_comm_overlap = false;
    parsed.warnings.emplace_back(
        "--sequence-parallel has no effect: there is one tensor-parallel rank");
  }
}

/// Scripts give "'99,1,0'" to Megatron, which looks at the numbers alone.
void follow_split(ParsedFlags& parsed) {
  std::erase_if(parsed.flags.data.split, [](char c) {
    return c == '\'' || c == '"';
  });
}

void check_positions(const ParsedFlags& parsed) {
  const ModelFlags& flags = parsed.flags.model;
  if (flags.no_position_embedding && !flags.use_rotary_position_embeddings &&
      flags.position_embedding == PositionEmbedding::learned_absolute) {
    throw ConfigError(
        {.what = "a model without positions",
         .where = "--no-position-embedding",
         .remedy = "add --position-embedding-type rope"});
  }
}

} // namespace

void follow_megatron(ParsedFlags& parsed) {
  follow_experts(parsed);
  follow_fp8(parsed);
  follow_recompute(parsed);
  follow_sequence_parallel(parsed);
  follow_split(parsed);
  check_positions(parsed);
}

} // namespace cairn::config
