#include "cli/generate/generate_flags.h"

#include "config/internal/actors.h"

#include <cairn/base/error.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

namespace cairn::cli {

void check_generate_flags(const config::Config& config, const Logger& logger) {
  using config::Actor;
  config::refuse_unused_flags(config, Actor::generate, Actor::pretrain);
  for (const std::string& warning : config.warnings) {
    logger.warning("{}", warning);
  }
  std::vector<std::string> about_training;
  for (const auto& [name, place] : config.given) {
    if (name.starts_with("--") && !config::acts_on(Actor::generate, name)) {
      about_training.push_back(name);
    }
  }
  if (!about_training.empty()) {
    logger.info(
        "about training, and without effect here: {}",
        fmt::join(about_training, ", "));
  }
  if (!config.flags.checkpointing.load) {
    throw ConfigError(
        {.what = "no checkpoint is named",
         .where = "--load",
         .remedy = "see `cairn generate --help`"});
  }
}

} // namespace cairn::cli
