#pragma once

#include <cairn/generate/sampling.h>
#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace cairn::serve {

/// A request to OpenAI's /v1/completions.
struct CompletionRequest {
  using Prompt = std::variant<std::string, std::vector<std::int64_t>>;
  std::vector<Prompt> prompts;
  std::optional<std::string> model{};
  std::int64_t most_tokens = 16;
  std::int64_t texts = 1; ///< for each prompt
  generate::Sampling sampling{};
  std::optional<int> logprobs{}; ///< likeliest tokens with each token
  bool echo = false;
  bool stream = false;
  std::vector<std::string> stops{};
  std::optional<std::uint64_t> seed{};
};

/// `defaults` count for what the request does not say. Throws ApiError, naming
/// the key, for what is wrong and for settings of
/// OpenAI's that have no counterpart here.
CompletionRequest read_completion_request(
    const nlohmann::json& body,
    const generate::Sampling& defaults);

} // namespace cairn::serve
