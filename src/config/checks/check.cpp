#include "config/checks/check.h"

#include <cairn/base/error.h>
#include "config/keys/deepspeed_reader.h"

namespace cairn::config {

void Config::check() const {
  check_support(*this);
  check_deepspeed(*this);
  check_flags(*this);
  check_shapes(*this);
}

void refuse(
    const Config& config,
    const std::string& name,
    std::string what,
    std::string remedy) {
  throw ConfigError(
      {.what = std::move(what),
       .where = place_of(config.given, name),
       .remedy = std::move(remedy)});
}

} // namespace cairn::config
