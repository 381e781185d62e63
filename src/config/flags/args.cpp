#include <cairn/config/config.h>

#include "config/flags/flag_parser.h"

namespace cairn::config {

Args Args::parse(int argc, const char* const* argv, Others others) {
  const std::vector<std::string> arguments(
      argv + (argc > 0 ? 1 : 0),
      argv + argc);
  ParsedFlags parsed = parse_flags(
      arguments,
      others == Others::keep ? Unknown::keep : Unknown::refuse,
      [](const Flag& flag) {
        return flag.name == "--deepspeed" ||
            flag.name == "--deepspeed_config" || flag.name == "--local_rank";
      });
  return {
      .deepspeed = parsed.flags.deepspeed.deepspeed,
      .deepspeed_config = std::move(parsed.flags.deepspeed.config),
      .local_rank = parsed.flags.distributed.local_rank,
      .rest = std::move(parsed.rest),
      .warnings = std::move(parsed.warnings)};
}

} // namespace cairn::config
