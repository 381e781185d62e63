#pragma once

#include <cairn/generate/sampling.h>
#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::serve {

/// A request to Megatron's text generation server.
struct MegatronRequest {
  std::vector<std::string> prompts;
  std::int64_t tokens_to_generate = 64;
  bool logprobs = false;
  generate::Sampling sampling{};
  bool add_bos = false;
  bool stop_on_double_eol = false;
  bool stop_on_eol = false;
  bool prevent_newline_after_colon = false;
  std::optional<std::uint64_t> random_seed{};
  bool no_log = false;
  std::optional<std::int64_t> beam_width{};
  std::optional<std::int64_t> stop_token{};
  double length_penalty = 1;
};

/// `defaults` count for what the request does not say. Throws ApiError with
/// Megatron's words for what is wrong. Megatron answers most of them with
/// status 200; here all have 400.
MegatronRequest read_megatron_request(
    const nlohmann::json& body,
    const generate::Sampling& defaults);

} // namespace cairn::serve
