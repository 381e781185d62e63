#include "serve/completion_request.h"

#include "serve/api_error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <string_view>

namespace cairn::serve {
namespace {

using nlohmann::json;

constexpr std::int64_t most_texts_of_request = 128;
constexpr int most_likeliest = 20;

[[noreturn]] void refuse_key(std::string_view key, std::string_view what) {
  throw ApiError(400, fmt::format("{}: {}", key, what));
}

/// The value of a key; nothing if it is missing or null.
const json* given(const json& body, const char* key) {
  const auto found = body.find(key);
  return found == body.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> number(
    const json& body,
    const char* key,
    double least,
    double most) {
  const json* const value = given(body, key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const double found = value->is_number() ? value->get<double>() : least - 1;
  if (!(found >= least && found <= most)) {
    refuse_key(key, fmt::format("must be a number from {} to {}", least, most));
  }
  return found;
}

std::optional<std::int64_t> integer(
    const json& body,
    const char* key,
    std::int64_t least,
    std::int64_t most) {
  const json* const value = given(body, key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_number_integer() || *value < least || *value > most) {
    refuse_key(
        key,
        fmt::format("must be an integer from {} to {}", least, most));
  }
  return value->get<std::int64_t>();
}

bool flag(const json& body, const char* key) {
  const json* const value = given(body, key);
  if (value != nullptr && !value->is_boolean()) {
    refuse_key(key, "must be true or false");
  }
  return value != nullptr && value->get<bool>();
}

bool are_ids(const json& value) {
  return value.is_array() && !value.empty() &&
      std::ranges::all_of(value, [](const json& each) {
           return each.is_number_integer();
         });
}

std::vector<CompletionRequest::Prompt> prompts_of(const json& value) {
  const auto one = [](const json& each) -> CompletionRequest::Prompt {
    if (each.is_string()) {
      return each.get<std::string>();
    }
    if (are_ids(each)) {
      return each.get<std::vector<std::int64_t>>();
    }
    refuse_key(
        "prompt",
        "must be a text, token ids, or a list of texts or of token ids");
  };
  std::vector<CompletionRequest::Prompt> prompts;
  if (value.is_array() && !are_ids(value)) {
    for (const json& each : value) {
      prompts.push_back(one(each));
    }
  } else {
    prompts.push_back(one(value));
  }
  if (prompts.empty()) {
    refuse_key("prompt", "must not be empty");
  }
  return prompts;
}

std::vector<std::string> stops_of(const json& value) {
  std::vector<std::string> stops;
  for (const json& each : value.is_array() ? value : json::array({value})) {
    if (!each.is_string() || each.get_ref<const std::string&>().empty()) {
      refuse_key("stop", "must be a text or a list of texts");
    }
    stops.push_back(each);
  }
  if (stops.size() > 16) {
    refuse_key("stop", "must be at most 16 texts");
  }
  return stops;
}

/// Settings whose only value here is the one that changes nothing.
void refuse_others(const json& body) {
  for (const char* key : {"presence_penalty", "frequency_penalty"}) {
    if (const json* value = given(body, key); value != nullptr && *value != 0) {
      refuse_key(key, "is not supported; repetition_penalty is");
    }
  }
  for (const char* key : {"suffix", "logit_bias"}) {
    if (const json* value = given(body, key);
        value != nullptr && !value->empty()) {
      refuse_key(key, "is not supported");
    }
  }
  if (const json* best = given(body, "best_of");
      best != nullptr && *best != body.value("n", json(1))) {
    refuse_key("best_of", "is not supported, other than the value of n");
  }
}

generate::Sampling sampling_of(
    const json& body,
    const generate::Sampling& defaults) {
  generate::Sampling sampling = defaults;
  if (const auto temperature = number(body, "temperature", 0, 100)) {
    sampling.greedy = *temperature == 0;
    sampling.temperature = sampling.greedy ? 1 : *temperature;
  }
  if (const auto top_p = number(body, "top_p", 0, 1)) {
    sampling.top_p = *top_p == 1 ? 0 : *top_p; // 0: no limit
  }
  if (const auto top_k =
          integer(body, "top_k", 0, std::numeric_limits<int>::max())) {
    sampling.top_k = *top_k;
  }
  if (const auto penalty = number(body, "repetition_penalty", 0.01, 100)) {
    sampling.repetition_penalty = *penalty;
  }
  return sampling;
}

} // namespace

CompletionRequest read_completion_request(
    const json& body,
    const generate::Sampling& defaults) {
  if (!body.is_object()) {
    throw ApiError(400, "the body must be a JSON object");
  }
  refuse_others(body);
  CompletionRequest request;
  const json* const prompt = given(body, "prompt");
  if (prompt == nullptr) {
    refuse_key("prompt", "is missing");
  }
  request.prompts = prompts_of(*prompt);
  if (const json* model = given(body, "model"); model != nullptr) {
    if (!model->is_string()) {
      refuse_key("model", "must be a text");
    }
    request.model = model->get<std::string>();
  }
  constexpr std::int64_t far = std::int64_t{1} << 40;
  request.most_tokens = integer(body, "max_tokens", 0, far).value_or(16);
  request.texts = integer(body, "n", 1, most_texts_of_request).value_or(1);
  if (static_cast<std::int64_t>(request.prompts.size()) * request.texts >
      most_texts_of_request) {
    refuse_key(
        "prompt",
        fmt::format(
            "a request may ask for {} texts at most",
            most_texts_of_request));
  }
  request.sampling = sampling_of(body, defaults);
  if (const auto count = integer(body, "logprobs", 0, most_likeliest)) {
    request.logprobs = static_cast<int>(*count);
  }
  request.echo = flag(body, "echo");
  request.stream = flag(body, "stream");
  if (const json* stop = given(body, "stop")) {
    request.stops = stops_of(*stop);
  }
  if (const json* seed = given(body, "seed")) {
    if (!seed->is_number_integer()) {
      refuse_key("seed", "must be an integer");
    }
    request.seed = seed->get<std::uint64_t>();
  }
  if (request.most_tokens == 0 && !request.echo) {
    refuse_key("max_tokens", "is 0 only together with echo");
  }
  return request;
}

} // namespace cairn::serve
