// The server with a small model, asked over real connections.

#include "serve/internal/text_server.h"

#include "support/browser.h"
#include "support/http_client.h"

#include <cairn/base/file.h>
#include <cairn/models/load_model.h>
#include <cairn/text/tokenizer.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace cairn::serve::text_server_test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::AllOf;
using testing::ask;
using testing::body_of;
using testing::get;
using ::testing::HasSubstr;
using testing::HttpClient;
using ::testing::Not;
using testing::post;
using ::testing::StartsWith;

/// A server of a model whose words are ids, "3 1 4", until the end of the
/// scope.
class Served {
 public:
  explicit Served(TextServerOptions options = {}, const char* model = "gpt2")
      : server_(make(std::move(options), model)),
        thread_([this] { server_.serve([this] { return ended_.load(); }); }) {}
  ~Served() { end(); }

  int port() const { return server_.port(); }
  void ask_to_end() { ended_ = true; }
  void end() {
    ended_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
  }

 private:
  static TextServer make(TextServerOptions options, const char* model) {
    options.port = 0;
    options.model_name = "tiny";
    return {
        text::load_tokenizer({.type = "NullTokenizer", .vocab_size = 512}),
        models::load_model(
            std::filesystem::path(CAIRN_GOLDEN_DIR) / "models" / model),
        options,
        Logger({.least = LogLevel::error})};
  }

  TextServer server_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

json reply_of(const std::string& answer) {
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  return json::parse(body_of(answer), nullptr, false);
}

json complete(int port, const json& request) {
  return reply_of(post(port, "/v1/completions", request.dump()));
}

const char* const golden_prompt = "63 218 33 184 481";

/// A text that came in pieces.
struct StreamedText {
  std::string text;
  json tokens = json::array();
  json offsets = json::array();
  int pieces = 0;
};
using Streamed = std::map<std::size_t, StreamedText>;

/// The texts of a stream with log-probabilities, by their indices.
Streamed read_stream(const std::string& answer) {
  Streamed texts;
  for (auto at = answer.find("data: {"); at != answer.npos;
       at = answer.find("data: {", at + 1)) {
    const json data =
        json::parse(answer.substr(at + 6, answer.find("\n\n", at) - at - 6));
    for (const json& choice : data["choices"]) {
      StreamedText& own = texts[choice["index"]];
      ++own.pieces;
      own.text += choice["text"];
      const json& scores = choice["logprobs"];
      own.tokens.insert(
          own.tokens.end(),
          scores["tokens"].begin(),
          scores["tokens"].end());
      own.offsets.insert(
          own.offsets.end(),
          scores["text_offset"].begin(),
          scores["text_offset"].end());
    }
  }
  return texts;
}

TEST(TextServer, AnswersAsMegatronDoes) {
  const Served served;
  const json request{
      {"prompts", {golden_prompt, "1 2"}},
      {"tokens_to_generate", 6},
      {"top_k", 1},
      {"logprobs", true}};
  for (const char* const method : {"PUT", "POST"}) {
    const json reply =
        reply_of(post(served.port(), "/api", request.dump(), method));
    EXPECT_EQ(reply["text"][0], "63 218 33 184 481 67 1 1 1 1 1");
    EXPECT_EQ(reply["segments"][0].size(), 11U);
    EXPECT_EQ(reply["segments"][0][5], " 67");
    EXPECT_EQ(reply["logprobs"][0].size(), 10U) << "the first one has none";
    EXPECT_EQ(reply["text"].size(), 2U);
  }
  const std::string refused =
      post(served.port(), "/api", R"({"prompts": []})", "PUT");
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(json::parse(body_of(refused)), "prompts is empty");
  EXPECT_THAT(get(served.port(), "/api"), StartsWith("HTTP/1.1 405 "));
}

TEST(TextServer, SearchesBeams) {
  const Served served;
  const json reply = reply_of(post(
      served.port(),
      "/api",
      json{
          {"prompts", {golden_prompt}},
          {"tokens_to_generate", 6},
          {"beam_width", 3}}
          .dump()));
  ASSERT_EQ(reply["text"].size(), 3U);
  EXPECT_THAT(
      reply["text"][0].get<std::string>(),
      StartsWith(std::string(golden_prompt) + " "));
  EXPECT_EQ(reply["segments"][0].size(), 11U);
  EXPECT_GE(reply["scores"][0], reply["scores"][1]);
  EXPECT_GE(reply["scores"][1], reply["scores"][2]);
}

TEST(TextServer, ScoresAPromptWithoutContinuingIt) {
  const Served served;
  const json reply = reply_of(post(
      served.port(),
      "/api",
      R"({"prompts": ["1 2 3"], "tokens_to_generate": 0, "logprobs": true})"));
  EXPECT_EQ(reply["text"][0], "1 2 3");
  EXPECT_EQ(reply["logprobs"][0].size(), 2U);
}

TEST(TextServer, AnswersAsOpenAiDoes) {
  const Served served;
  const json reply = complete(
      served.port(),
      {{"prompt", golden_prompt},
       {"max_tokens", 6},
       {"temperature", 0},
       {"logprobs", 2},
       {"echo", true}});
  EXPECT_EQ(reply["object"], "text_completion");
  EXPECT_EQ(reply["model"], "tiny");
  const json& choice = reply["choices"][0];
  EXPECT_EQ(choice["text"], "63 218 33 184 481 67 1 1 1 1 1");
  EXPECT_EQ(choice["finish_reason"], "length");
  const json& scores = choice["logprobs"];
  EXPECT_EQ(scores["tokens"].size(), 11U);
  EXPECT_TRUE(scores["token_logprobs"][0].is_null());
  // A greedy token is the likeliest one.
  EXPECT_EQ(scores["token_logprobs"][5], scores["top_logprobs"][5][" 67"]);
  EXPECT_EQ(scores["top_logprobs"][5].size(), 2U);
  EXPECT_EQ(reply["usage"]["prompt_tokens"], 5);
  EXPECT_EQ(reply["usage"]["completion_tokens"], 6);
  EXPECT_EQ(
      get(served.port(), "/v1/models").find("\"tiny\"") != std::string::npos,
      true);
  EXPECT_THAT(
      post(
          served.port(),
          "/v1/completions",
          R"({"model": "x", "prompt": "1"})"),
      StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(
      post(served.port(), "/v1/completions", R"({"prompt": "1)"),
      AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("the body is no JSON")));
  EXPECT_THAT(
      post(served.port(), "/v1/completions", R"({"prompt": [512]})"),
      AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("there is no token 512")));
}

TEST(TextServer, StopsAtAStopString) {
  const Served served;
  const json choice = complete(
      served.port(),
      {{"prompt", golden_prompt},
       {"max_tokens", 6},
       {"temperature", 0},
       {"stop", " 1 1"}})["choices"][0];
  EXPECT_EQ(choice["text"], " 67");
  EXPECT_EQ(choice["finish_reason"], "stop");
}

TEST(TextServer, StreamsTheSameText) {
  const Served served;
  const json request{
      {"prompt", "5 6 7"},
      {"max_tokens", 20},
      {"seed", 3},
      {"logprobs", 1}};
  const json whole = complete(served.port(), request)["choices"][0];
  json streamed = request;
  streamed["stream"] = true;
  const std::string answer =
      post(served.port(), "/v1/completions", streamed.dump());
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_THAT(answer, HasSubstr("data: [DONE]\n\n"));
  const StreamedText text = read_stream(answer).at(0);
  EXPECT_EQ(text.text, whole["text"]);
  EXPECT_EQ(text.tokens, whole["logprobs"]["tokens"]);
  EXPECT_EQ(text.offsets, whole["logprobs"]["text_offset"]);
}

/// What transformers' greedy search writes with the tiny T5, for each prompt.
json golden_t5() {
  return json::parse(read_file(
      std::filesystem::path(CAIRN_GOLDEN_DIR) / "generation" / "t5.json",
      1 << 20))["t5_gated_gelu"]["greedy"];
}

std::string words(const json& ids) {
  std::string text;
  for (const json& id : ids) {
    text += (text.empty() ? "" : " ") + id.dump();
  }
  return text;
}

TEST(TextServer, WritesWithAT5WhatTransformersWrites) {
  const Served served({}, "t5_gated_gelu");
  int rows = 0;
  for (const json& row : golden_t5()) {
    if (!row["end"].is_null()) {
      continue; // requests name no end
    }
    const json reply = complete(
        served.port(),
        {{"prompt", row["source"]}, {"max_tokens", 24}, {"temperature", 0}});
    EXPECT_EQ(reply["choices"][0]["text"], words(row["ids"]));
    EXPECT_EQ(reply["usage"]["prompt_tokens"], row["source"].size());
    EXPECT_EQ(reply["usage"]["completion_tokens"], 24);
    ++rows;
  }
  EXPECT_EQ(rows, 5);
}

TEST(TextServer, AnswersForAT5AsMegatronDoes) {
  const Served served({}, "t5_gated_gelu");
  const json request{
      {"prompts", {golden_prompt, "1 2"}},
      {"tokens_to_generate", 6},
      {"top_k", 1},
      {"logprobs", true}};
  const json reply = reply_of(post(served.port(), "/api", request.dump()));
  // The tokenizer's text gets the model's end token, 1.
  const json same = complete(
      served.port(),
      {{"prompt", {63, 218, 33, 184, 481, 1}},
       {"max_tokens", 6},
       {"temperature", 0},
       {"logprobs", 0}});
  EXPECT_EQ(reply["text"][0], same["choices"][0]["text"])
      << "the prompt is no part of the text";
  EXPECT_EQ(reply["segments"][0].size(), 6U);
  EXPECT_EQ(
      reply["logprobs"][0],
      same["choices"][0]["logprobs"]["token_logprobs"]);
  EXPECT_EQ(reply["text"].size(), 2U);
  const json beams = reply_of(post(
      served.port(),
      "/api",
      json{
          {"prompts", {golden_prompt}},
          {"tokens_to_generate", 6},
          {"beam_width", 3}}
          .dump()));
  ASSERT_EQ(beams["text"].size(), 3U);
  EXPECT_LE(beams["segments"][0].size(), 6U);
  EXPECT_GE(beams["scores"][0], beams["scores"][2]);
}

TEST(TextServer, StreamsTheTextsOfAT5) {
  const Served served({}, "t5_relu");
  json request{
      {"prompt", "64 230 50 365"},
      {"max_tokens", 20},
      {"seed", 3},
      {"n", 2},
      {"logprobs", 1}};
  const json whole = complete(served.port(), request)["choices"];
  request["stream"] = true;
  const Streamed streamed =
      read_stream(post(served.port(), "/v1/completions", request.dump()));
  ASSERT_EQ(streamed.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_GT(streamed.at(i).pieces, 10);
    EXPECT_EQ(streamed.at(i).text, whole[i]["text"]);
    EXPECT_EQ(streamed.at(i).tokens, whole[i]["logprobs"]["tokens"]);
    EXPECT_EQ(streamed.at(i).offsets, whole[i]["logprobs"]["text_offset"]);
  }
  EXPECT_NE(whole[0]["text"], whole[1]["text"]);
}

TEST(TextServer, SaysWhatAT5CannotDo) {
  TextServerOptions options;
  options.most_source_tokens = 5;
  const Served served(options, "t5_relu");
  const auto refusal = [&](const char* path, const json& request) {
    const std::string answer = post(served.port(), path, request.dump());
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 "));
    return body_of(answer);
  };
  EXPECT_THAT(
      refusal("/v1/completions", {{"prompt", "5"}, {"echo", true}}),
      HasSubstr("echo: must be false, because this model is a T5"));
  EXPECT_THAT(
      refusal("/v1/completions", {{"prompt", ""}}),
      HasSubstr("without a text to read"));
  EXPECT_THAT(
      refusal("/v1/completions", {{"prompt", {1, 2, 3, 4, 5, 6}}}),
      HasSubstr("the prompt has 6 tokens, and this model reads at most 5"));
  EXPECT_THAT(
      refusal("/v1/completions", {{"prompt", "1 2 3 4 5"}}),
      HasSubstr("the prompt has 6 tokens"));
  EXPECT_THAT(
      refusal("/v1/completions", {{"prompt", json::array({512})}}),
      HasSubstr("there is no token 512"));
  EXPECT_THAT(
      refusal("/api", {{"prompts", {"5"}}, {"add_BOS", true}}),
      HasSubstr("add_BOS must be false"));
  EXPECT_THAT(
      refusal(
          "/api",
          {{"prompts", {"5"}}, {"tokens_to_generate", 0}, {"logprobs", true}}),
      HasSubstr("tokens_to_generate must be greater than 0"));
  EXPECT_THAT(
      get(served.port(), "/v1/models"),
      HasSubstr(R"("continues_prompt":false)"));
}

TEST(TextServer, GivesEveryClientItsOwnText) {
  const Served served;
  const auto request = [](int i) {
    return json{
        {"prompt", fmt::format("{} {}", i, i + 1)},
        {"max_tokens", 3 + i % 17},
        {"seed", i}};
  };
  constexpr int clients = 48;
  std::vector<std::future<std::string>> answers;
  for (int i = 0; i < clients; ++i) {
    answers.push_back(std::async(std::launch::async, [&, i] {
      return complete(served.port(), request(i))["choices"][0]["text"]
          .get<std::string>();
    }));
  }
  for (int i = 0; i < clients; ++i) {
    EXPECT_EQ(
        answers[i].get(),
        complete(served.port(), request(i))["choices"][0]["text"])
        << "the same as alone";
  }
}

TEST(TextServer, RefusesMoreTextsThanItHasRoomFor) {
  const Served served({.most_texts = 3});
  const json four{{"prompt", {"1", "2", "3", "4"}}, {"max_tokens", 1}};
  const std::string refused =
      post(served.port(), "/v1/completions", four.dump());
  EXPECT_THAT(
      refused,
      AllOf(
          StartsWith("HTTP/1.1 429 "),
          HasSubstr("Retry-After: 1\r\n"),
          HasSubstr("rate_limit_error")));
  complete(served.port(), {{"prompt", {"1", "2", "3"}}, {"max_tokens", 1}});
}

TEST(TextServer, AsksForItsKey) {
  const Served served({.api_key = "secret"});
  const auto with = [&](const std::string& key) {
    return ask(
        served.port(),
        "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        "Authorization: Bearer " +
            key + "\r\n\r\n");
  };
  EXPECT_THAT(with("secret"), StartsWith("HTTP/1.1 200 "));
  for (const char* const wrong : {"", "secre", "secrets", "Secret"}) {
    EXPECT_THAT(with(wrong), StartsWith("HTTP/1.1 401 ")) << wrong;
  }
  EXPECT_THAT(
      post(served.port(), "/api", R"({"prompts": ["1"]})"),
      StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(get(served.port(), "/health"), StartsWith("HTTP/1.1 200 "));
}

/// The value of a metric without labels.
std::string metric(int port, const std::string& name) {
  const std::string text = get(port, "/metrics");
  const auto at = text.find("\n" + name + " ");
  return at == text.npos ? "none"
                         : text.substr(
                               at + name.size() + 2,
                               text.find('\n', at + 1) - at - name.size() - 2);
}

TEST(TextServer, EndsTheTextOfAClientThatLeaves) {
  const Served served;
  {
    HttpClient client(served.port());
    const std::string body =
        R"({"prompt": "1", "max_tokens": 120, "stream": true, "n": 2})";
    client.send(fmt::format(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Length: {}\r\n\r\n{}",
        body.size(),
        body));
    client.read_until("data: ");
  }
  for (int i = 0; i < 400 && metric(served.port(), "cairn_texts") != "0"; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(metric(served.port(), "cairn_texts"), "0");
}

TEST(TextServer, FinishesTextsAtItsEnd) {
  Served served;
  HttpClient client(served.port());
  const std::string body = R"({"prompts": ["1"], "tokens_to_generate": 100})";
  client.send(fmt::format(
      "PUT /api HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
      "Content-Length: {}\r\n\r\n{}",
      body.size(),
      body));
  // Its text has begun.
  while (metric(served.port(), "cairn_generated_tokens_total") == "0") {
    std::this_thread::sleep_for(1ms);
  }
  served.ask_to_end();
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 200 "));
  served.end();
}

TEST(TextServer, HasAPageWithoutForeignParts) {
  const Served served;
  EXPECT_THAT(
      get(served.port(), "/"),
      AllOf(
          HasSubstr("<textarea id=\"prompt\""),
          HasSubstr("Content-Security-Policy: default-src 'none'"),
          HasSubstr("function showTip"),
          Not(HasSubstr("https://")),
          Not(HasSubstr("/*script*/"))));
}

class ServeInABrowser : public testing::BrowserTest {};

TEST_F(ServeInABrowser, ThePageShowsTokensAndTheirProbabilities) {
  const Served served;
  testing::Browser browser;
  const auto look = [&] {
    return browser.look(
        fmt::format(
            "http://127.0.0.1:{}/#prompt=63%20218%2033%20184%20481&"
            "temperature=0&tokens=6&go",
            served.port()),
        900,
        5000);
  };
  // The page's time may end before the stream does.
  auto seen = look();
  for (int i = 0;
       i < 5 && seen.document.find("6 tokens, ") == seen.document.npos;
       ++i) {
    seen = look();
  }
  EXPECT_EQ(seen.console, "");
  EXPECT_THAT(
      seen.document,
      AllOf(
          HasSubstr("tiny, texts of up to"),
          HasSubstr("63 218 33 184 481</span><span class=\"token\""),
          HasSubstr("> 67</span>"),
          HasSubstr("6 tokens, ")));
}

} // namespace
} // namespace cairn::serve::text_server_test
