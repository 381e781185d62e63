#include "serve/megatron_request.h"

#include "serve/api_error.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace cairn::serve {
namespace {

using nlohmann::json;

void require(bool holds, const char* message) {
  if (!holds) {
    throw ApiError(400, message);
  }
}

/// The value of a key, or nothing if it is missing. Throws ApiError if it has
/// another type.
template <typename Is>
const json* value_if_given(
    const json& body,
    const char* key,
    Is is,
    const char* message) {
  const auto found = body.find(key);
  if (found == body.end()) {
    return nullptr;
  }
  require(is(*found), message);
  return &*found;
}

bool is_integer(const json& value) {
  return value.is_number_integer();
}
bool is_number(const json& value) {
  return value.is_number();
}

void read_flag(
    const json& body,
    const char* key,
    bool& into,
    const char* message) {
  const auto is_bool = [](const json& value) { return value.is_boolean(); };
  if (const json* value = value_if_given(body, key, is_bool, message)) {
    into = value->get<bool>();
  }
}

void read_prompts(const json& body, MegatronRequest& request) {
  require(
      body.is_object() && body.contains("prompts"),
      "prompts argument required");
  require(
      !body.contains("max_len"),
      "max_len is no longer used.  Replace with tokens_to_generate");
  require(
      !body.contains("sentences"),
      "sentences is no longer used.  Replace with prompts");
  const json& prompts = body["prompts"];
  require(
      prompts.is_array() &&
          std::ranges::all_of(
              prompts,
              [](const json& each) { return each.is_string(); }),
      "prompts is not a list of strings");
  require(!prompts.empty(), "prompts is empty");
  require(prompts.size() <= 128, "Maximum number of prompts is 128");
  request.prompts = prompts.get<std::vector<std::string>>();
}

void read_amount(const json& body, MegatronRequest& request) {
  if (const json* value = value_if_given(
          body,
          "tokens_to_generate",
          is_integer,
          "tokens_to_generate must be an integer greater than 0")) {
    request.tokens_to_generate = value->get<std::int64_t>();
  }
  require(
      request.tokens_to_generate >= 0,
      "tokens_to_generate must be an integer greater than or equal to 0");
  read_flag(
      body,
      "logprobs",
      request.logprobs,
      "logprobs must be a boolean value");
  require(
      request.tokens_to_generate > 0 || request.logprobs,
      "tokens_to_generate=0 implies logprobs should be True");
}

void read_sampling(const json& body, generate::Sampling& sampling) {
  const char* const temperature =
      "temperature must be a positive number less than or equal to 100.0";
  if (const json* value =
          value_if_given(body, "temperature", is_number, temperature)) {
    sampling.temperature = value->get<double>();
  }
  require(sampling.temperature > 0 && sampling.temperature <= 100, temperature);
  if (const json* value = value_if_given(
          body,
          "top_k",
          is_integer,
          "top_k must be an integer equal to or greater than 0 and less than "
          "or equal to 1000")) {
    sampling.top_k = value->get<std::int64_t>();
    sampling.top_p = 0;
    sampling.greedy = sampling.top_k == 1;
  }
  require(
      sampling.top_k >= 0 && sampling.top_k <= 1000,
      "top_k must be equal to or greater than 0 and less than or equal to "
      "1000");
  if (const json* value = value_if_given(
          body,
          "top_p",
          is_number,
          "top_p must be a positive float less than or equal to 1.0")) {
    sampling.top_p = value->get<double>();
    sampling.top_k = body.contains("top_k") ? sampling.top_k : 0;
    sampling.greedy = sampling.top_k == 1;
  }
  require(
      sampling.top_p <= 0 || sampling.top_k == 0,
      "cannot set both top-k and top-p samplings.");
  require(
      sampling.top_p >= 0 && sampling.top_p <= 1,
      "top_p must be less than or equal to 1.0");
  if (const json* value = value_if_given(
          body,
          "top_p_decay",
          is_number,
          "top_p_decay must be a positive float less than or equal to 1.0")) {
    require(sampling.top_p > 0, "top_p_decay cannot be set without top_p");
    sampling.top_p_decay = value->get<double>();
    require(
        sampling.top_p_decay >= 0 && sampling.top_p_decay <= 1,
        "top_p_decay must be less than or equal to 1.0");
  }
  if (const json* value = value_if_given(
          body,
          "top_p_bound",
          is_number,
          "top_p_bound must be a positive float less than or equal to "
          "top_p")) {
    require(sampling.top_p > 0, "top_p_bound cannot be set without top_p");
    sampling.top_p_bound = value->get<double>();
    require(
        sampling.top_p_bound > 0 && sampling.top_p_bound <= sampling.top_p,
        "top_p_bound must be greater than 0 and less than top_p");
  }
}

void read_stops(const json& body, MegatronRequest& request) {
  read_flag(
      body,
      "add_BOS",
      request.add_bos,
      "add_BOS must be a boolean value");
  require(
      request.add_bos ||
          std::ranges::none_of(
              request.prompts,
              [](const auto& each) { return each.empty(); }),
      "Empty prompts require add_BOS=true");
  read_flag(
      body,
      "stop_on_double_eol",
      request.stop_on_double_eol,
      "stop_on_double_eol must be a boolean value");
  read_flag(
      body,
      "stop_on_eol",
      request.stop_on_eol,
      "stop_on_eol must be a boolean value");
  read_flag(
      body,
      "prevent_newline_after_colon",
      request.prevent_newline_after_colon,
      "prevent_newline_after_colon must be a boolean value");
  if (const json* value = value_if_given(
          body,
          "stop_token",
          is_integer,
          "stop_token must be an integer")) {
    request.stop_token = value->get<std::int64_t>();
  }
}

void read_beam(const json& body, MegatronRequest& request) {
  if (const json* value = value_if_given(
          body,
          "beam_width",
          is_integer,
          "beam_width must be integer")) {
    request.beam_width = value->get<std::int64_t>();
    require(*request.beam_width >= 1, "beam_width must be an integer > 1");
    require(*request.beam_width <= 64, "beam_width must be at most 64");
    require(
        request.prompts.size() == 1,
        "When doing beam_search, batch size must be 1");
    require(
        !request.prevent_newline_after_colon && !request.stop_on_eol &&
            !request.stop_on_double_eol && !request.logprobs,
        "logprobs, stop_on_eol, stop_on_double_eol and "
        "prevent_newline_after_colon do not go with beam_width");
  }
  if (const json* value = value_if_given(
          body,
          "length_penalty",
          is_number,
          "length_penalty must be a float")) {
    request.length_penalty = value->get<double>();
  }
}

} // namespace

MegatronRequest read_megatron_request(
    const json& body,
    const generate::Sampling& defaults) {
  MegatronRequest request{.sampling = defaults};
  read_prompts(body, request);
  read_amount(body, request);
  read_sampling(body, request.sampling);
  read_stops(body, request);
  if (const json* value = value_if_given(
          body,
          "random_seed",
          is_integer,
          "random_seed must be integer")) {
    require(
        value->is_number_unsigned() || value->get<std::int64_t>() >= 0,
        "random_seed must be a positive integer");
    request.random_seed = value->get<std::uint64_t>();
  }
  read_flag(body, "no_log", request.no_log, "no_log must be a boolean value");
  read_beam(body, request);
  return request;
}

} // namespace cairn::serve
