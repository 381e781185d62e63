#include "serve/api_error.h"
#include "serve/completion_request.h"
#include "serve/megatron_request.h"
#include "support/fuzz.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace cairn::serve::requests_test {
namespace {

using nlohmann::json;

std::string megatron_error(const std::string& text) {
  try {
    read_megatron_request(json::parse(text), {});
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    return error.what();
  }
  return "";
}

TEST(MegatronRequest, HasMegatronsDefaults) {
  const auto request =
      read_megatron_request(json::parse(R"({"prompts": ["a", "b"]})"), {});
  EXPECT_EQ(request.prompts.size(), 2U);
  EXPECT_EQ(request.tokens_to_generate, 64);
  EXPECT_FALSE(request.logprobs);
  EXPECT_EQ(request.sampling.temperature, 1);
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_FALSE(request.sampling.greedy);
  EXPECT_FALSE(request.random_seed);
}

TEST(MegatronRequest, ReadsEverything) {
  const auto request = read_megatron_request(
      json::parse(R"({"prompts": [""], "tokens_to_generate": 5,
        "logprobs": true, "temperature": 0.5, "top_p": 0.9,
        "top_p_decay": 0.5, "top_p_bound": 0.1, "add_BOS": true,
        "stop_on_eol": true, "stop_on_double_eol": true,
        "prevent_newline_after_colon": true, "random_seed": 7,
        "no_log": true, "length_penalty": 0.5, "stop_token": 3})"),
      {});
  EXPECT_EQ(request.sampling.top_p, 0.9);
  EXPECT_EQ(request.sampling.top_p_decay, 0.5);
  EXPECT_EQ(request.sampling.top_p_bound, 0.1);
  EXPECT_TRUE(request.add_bos && request.stop_on_eol && request.no_log);
  EXPECT_EQ(request.random_seed, 7U);
  EXPECT_EQ(request.length_penalty, 0.5);
  EXPECT_EQ(request.stop_token, 3);
  const auto greedy = read_megatron_request(
      json::parse(R"({"prompts": ["a"], "top_k": 1})"),
      {.top_p = 0.9});
  EXPECT_TRUE(greedy.sampling.greedy);
  EXPECT_EQ(greedy.sampling.top_p, 0) << "the request wins over the defaults";
}

TEST(MegatronRequest, RefusesWithMegatronsWords) {
  EXPECT_EQ(megatron_error("{}"), "prompts argument required");
  EXPECT_EQ(megatron_error("[]"), "prompts argument required");
  EXPECT_EQ(megatron_error(R"({"prompts": []})"), "prompts is empty");
  EXPECT_EQ(
      megatron_error(R"({"prompts": "a"})"),
      "prompts is not a list of strings");
  EXPECT_EQ(
      megatron_error(R"({"prompts": ["a", 3]})"),
      "prompts is not a list of strings");
  EXPECT_EQ(
      megatron_error(json{{"prompts", json(129, "a")}}.dump()),
      "Maximum number of prompts is 128");
  const auto with = [](const std::string& more) {
    return megatron_error(R"({"prompts": ["a"], )" + more + "}");
  };
  EXPECT_EQ(
      with(R"("max_len": 3)"),
      "max_len is no longer used.  Replace with tokens_to_generate");
  EXPECT_EQ(
      with(R"("tokens_to_generate": "3")"),
      "tokens_to_generate must be an integer greater than 0");
  EXPECT_EQ(
      with(R"("tokens_to_generate": -1)"),
      "tokens_to_generate must be an integer greater than or equal to 0");
  EXPECT_EQ(
      with(R"("tokens_to_generate": 0)"),
      "tokens_to_generate=0 implies logprobs should be True");
  EXPECT_EQ(with(R"("logprobs": 1)"), "logprobs must be a boolean value");
  EXPECT_EQ(
      with(R"("temperature": 0)"),
      "temperature must be a positive number less than or equal to 100.0");
  EXPECT_EQ(
      with(R"("top_k": 1001)"),
      "top_k must be equal to or greater than 0 and less than or equal to "
      "1000");
  EXPECT_EQ(
      with(R"("top_k": 5, "top_p": 0.5)"),
      "cannot set both top-k and top-p samplings.");
  EXPECT_EQ(with(R"("top_p": 1.5)"), "top_p must be less than or equal to 1.0");
  EXPECT_EQ(
      with(R"("top_p_decay": 0.5)"),
      "top_p_decay cannot be set without top_p");
  EXPECT_EQ(
      with(R"("top_p": 0.5, "top_p_bound": 0.6)"),
      "top_p_bound must be greater than 0 and less than top_p");
  EXPECT_EQ(
      megatron_error(R"({"prompts": [""]})"),
      "Empty prompts require add_BOS=true");
  EXPECT_EQ(
      with(R"("random_seed": -1)"),
      "random_seed must be a positive integer");
  EXPECT_EQ(with(R"("beam_width": 2, "stop_token": 3)"), "");
  EXPECT_NE(with(R"("beam_width": 2, "logprobs": true)"), "");
  EXPECT_EQ(with(R"("beam_width": 0)"), "beam_width must be an integer > 1");
  EXPECT_EQ(
      megatron_error(R"({"prompts": ["a", "b"], "beam_width": 2})"),
      "When doing beam_search, batch size must be 1");
}

std::string completion_error(const std::string& text) {
  try {
    read_completion_request(json::parse(text), {});
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    return error.what();
  }
  return "";
}

TEST(CompletionRequest, ReadsEveryFormOfPrompts) {
  const auto prompts = [](const char* prompt) {
    return read_completion_request(
               json::parse(std::string(R"({"prompt": )") + prompt + "}"),
               {})
        .prompts;
  };
  using Ids = std::vector<std::int64_t>;
  EXPECT_EQ(prompts(R"("ab")").size(), 1U);
  EXPECT_EQ(prompts(R"(["a", "b"])").size(), 2U);
  EXPECT_EQ(std::get<Ids>(prompts("[1, 2, 3]")[0]), (Ids{1, 2, 3}));
  EXPECT_EQ(std::get<Ids>(prompts("[[1], [2, 3]]")[1]), (Ids{2, 3}));
}

TEST(CompletionRequest, TakesTemperatureZeroForGreedy) {
  const auto sampling = [](const std::string& more) {
    return read_completion_request(
               json::parse(R"({"prompt": "a")" + more + "}"),
               {.top_p = 0.9})
        .sampling;
  };
  EXPECT_TRUE(sampling(R"(, "temperature": 0)").greedy);
  EXPECT_FALSE(sampling("").greedy);
  EXPECT_EQ(sampling("").top_p, 0.9);
  EXPECT_EQ(sampling(R"(, "top_p": 1)").top_p, 0) << "all tokens";
}

TEST(CompletionRequest, NamesTheKeyThatIsWrong) {
  const auto with = [](const std::string& more) {
    return completion_error(R"({"prompt": "a", )" + more + "}");
  };
  EXPECT_EQ(completion_error("[]"), "the body must be a JSON object");
  EXPECT_EQ(completion_error("{}"), "prompt: is missing");
  EXPECT_EQ(
      completion_error(R"({"prompt": [1, "a"]})"),
      "prompt: must be a text, token ids, or a list of texts or of token ids");
  EXPECT_EQ(
      with(R"("max_tokens": -1)").substr(0, 35),
      "max_tokens: must be an integer from");
  EXPECT_EQ(
      with(R"("temperature": "hot")"),
      "temperature: must be a number from 0 to 100");
  EXPECT_EQ(with(R"("stop": 3)"), "stop: must be a text or a list of texts");
  EXPECT_EQ(with(R"("echo": 1)"), "echo: must be true or false");
  EXPECT_EQ(with(R"("n": 129)"), "n: must be an integer from 1 to 128");
  EXPECT_EQ(
      with(R"("presence_penalty": 0.5)"),
      "presence_penalty: is not supported; repetition_penalty is");
  EXPECT_EQ(with(R"("presence_penalty": 0)"), "");
  EXPECT_EQ(
      with(R"("max_tokens": 0)"),
      "max_tokens: is 0 only together with echo");
}

TEST(ServeRequests, SurviveAnyJson) {
  const cairn::testing::Fuzz inputs{
      .seeds =
          {R"({"prompts":["a"],"tokens_to_generate":5,"top_k":3})",
           R"({"prompt":[[1,2],[3]],"max_tokens":5,"stop":["x"],"seed":1})",
           R"({"prompt":"x","temperature":0.5,"logprobs":2,"echo":true})"},
      .pieces = {
          "null",
          "1e999",
          "-1",
          "[[]]",
          "{}",
          "\"\\ud800\"",
          "99999999999999999999",
          "\"n\":1,\"best_of\":[],"}};
  const int accepted =
      cairn::testing::fuzz(inputs, [](const std::string& input) {
        const json body = json::parse(input, nullptr, false);
        if (body.is_discarded()) {
          throw ApiError(400, "no JSON");
        }
        if (body.is_object() && body.contains("prompts")) {
          read_megatron_request(body, {});
        } else {
          read_completion_request(body, {});
        }
      });
  EXPECT_GT(accepted, 0);
}

} // namespace
} // namespace cairn::serve::requests_test
