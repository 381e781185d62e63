#pragma once

#include <cstdint>

namespace cairn::generate {

/// The rule for choosing a token from the model's scores.
struct Sampling {
  /// Take the likeliest token. The members below, except for the penalty, are
  /// ignored.
  bool greedy = false;
  double temperature = 1; ///< below 1, likely tokens become likelier still
  std::int64_t top_k = 0; ///< choose among this many likeliest; 0: all
  /// Choose among the likeliest that together have this probability; 0: all.
  double top_p = 0;
  /// Above 1, tokens that the text has already, prompt included, become less
  /// likely: their scores are divided by it, or multiplied if they are below 0.
  double repetition_penalty = 1;
  /// `top_p` is multiplied by this after every token; 0: it stays.
  double top_p_decay = 0;
  double top_p_bound = 0; ///< `top_p_decay` stops here
};

/// Throws ConfigError for values that make no sense.
void check(const Sampling& sampling);

} // namespace cairn::generate
