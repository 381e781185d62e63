#pragma once

#include <cairn/models/transformer.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace cairn::generate {

/// The rule for choosing a token from the model's scores.
struct Sampling {
  bool greedy = false;    ///< the likeliest; the other members are ignored
  double temperature = 1; ///< below 1, likely tokens become likelier still
  std::int64_t top_k = 0; ///< choose among this many likeliest; 0: all
  /// Choose among the likeliest that together have this probability; 0: all.
  double top_p = 0;
};

struct GenerateOptions {
  Sampling sampling{};
  std::int64_t most_tokens = 1024; ///< after the prompt
  /// Most tokens of prompt and continuation, where the model has more
  /// positions.
  std::optional<std::int64_t> longest{};
  std::optional<std::int64_t> end{}; ///< the token that ends a text
  /// Choose among the ids below this only.
  std::optional<std::int64_t> vocabulary{};
  std::uint64_t seed = 1234;
  std::uint64_t first_text = 0; ///< number of the first of these texts
  /// Called with every token as it is chosen, except `end`.
  std::function<void(std::size_t text, std::int64_t token)> on_token{};
};

struct Continuation {
  std::vector<std::int64_t> tokens; ///< after the prompt, without `end`
  bool finished = false;            ///< true when `end` was chosen
};

/// Continues each prompt, one token at a time, with GPT and Llama. A text
/// depends on its prompt, the seed and its number, and except for rounding not
/// on the texts beside it. Every token computes the whole text anew. Leaves the
/// model in eval().
///
/// Throws DataError for a prompt that is empty or leaves no room for a token,
/// ConfigError for options that make no sense and for other models.
std::vector<Continuation> generate(
    models::Transformer& model,
    const std::vector<std::vector<std::int64_t>>& prompts,
    const GenerateOptions& options);

/// Length of the longest text in tokens, prompt included.
std::int64_t longest_text(
    const models::ModelDescription& model,
    const GenerateOptions& options);

/// Throws DataError for a prompt that is empty or leaves no room for a token.
void require_room(
    const std::vector<std::int64_t>& prompt,
    std::int64_t longest);

/// Throws ConfigError for models that do not go from left to right.
void require_left_to_right(const models::ModelDescription& model);

} // namespace cairn::generate
