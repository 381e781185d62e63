#include <cairn/generate/sampling.h>

#include <cairn/base/error.h>

namespace cairn::generate {

void check(const Sampling& sampling) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) {
      throw ConfigError({.what = what});
    }
  };
  const auto is_part = [](double x) { return x >= 0 && x <= 1; };
  require(sampling.temperature > 0, "a temperature is above 0");
  require(sampling.top_k >= 0, "top_k is not below 0");
  require(is_part(sampling.top_p), "top_p is from 0 to 1");
  require(is_part(sampling.top_p_decay), "top_p_decay is from 0 to 1");
  require(is_part(sampling.top_p_bound), "top_p_bound is from 0 to 1");
  require(
      sampling.repetition_penalty > 0,
      "a repetition penalty is above 0; 1 is none");
}

} // namespace cairn::generate
