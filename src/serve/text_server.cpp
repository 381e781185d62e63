#include "serve/internal/text_server.h"

#include "serve/api_error.h"
#include "serve/completions_api.h"
#include "serve/megatron_api.h"
#include "serve/page.h"
#include "serve/service.h"

#include <cairn/base/error.h>

#include <cairn/generate/generate.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace cairn::serve {
namespace {

using nlohmann::json;

/// Compares in a time that does not tell how much of the key was right.
bool is_same_key(std::string_view given, std::string_view key) {
  unsigned char differs = given.size() == key.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    differs |= static_cast<unsigned char>(given[i] ^ key[i % key.size()]);
  }
  return differs == 0;
}

bool is_allowed(const http::Request& request, const std::string& key) {
  constexpr std::string_view prefix = "Bearer ";
  return key.empty() ||
      (request.authorization.starts_with(prefix) &&
       is_same_key(
           std::string_view(request.authorization).substr(prefix.size()),
           key));
}

json read_json(const std::string& body) {
  json value = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    throw ApiError(400, "the body is no JSON");
  }
  return value;
}

std::optional<std::int64_t> end_token_of(
    const models::ModelDescription& model,
    const text::SpecialIds& special) {
  if (model.end_token) {
    return model.end_token;
  }
  return special.end_of_document ? special.end_of_document : special.end;
}

} // namespace

struct TextServer::State {
  State(
      std::shared_ptr<const text::Tokenizer> tokenizer,
      generate::TextModel model,
      const TextServerOptions& given,
      const Logger& logger)
      : options(given),
        server(
            {.address = given.address,
             .port = given.port,
             .limits =
                 {.body_bytes = given.body_bytes,
                  .connections = given.most_connections,
                  .patience = given.patience},
             .any_host =
                 given.address != "127.0.0.1" && given.address != "::1"}) {
    const models::ModelDescription description = model.description();
    generate::require_writes(description);
    const text::SpecialIds& special = tokenizer->special();
    const auto known = static_cast<std::int64_t>(tokenizer->vocab_size());
    service.model_name = options.model_name;
    service.model = description;
    service.begin_token = special.begin;
    if (description.begin_token && *description.begin_token < known) {
      service.begin_token = description.begin_token;
    }
    if (service.reads_prompts()) {
      service.start_token = description.decoder_start_token;
      if (!service.start_token) {
        service.start_token = special.begin ? special.begin : special.classify;
      }
      service.beginning({}); // throws if there is none
    }
    service.end_token = end_token_of(description, special);
    service.most_new_tokens = options.most_new_tokens;
    service.most_source_tokens = options.most_source_tokens;
    service.seed = options.seed;
    service.sampling = options.sampling;
    service.encoder = tokenizer->make_encoder();
    service.tokenizer = std::move(tokenizer);
    service.logger = logger;
    service.beams = std::make_unique<BeamQueue>(
        model,
        options.batch,
        std::max<std::size_t>(1, options.most_texts / BeamQueue::widest));
    service.queue = std::make_unique<TextQueue>(
        generate::TextBatch(std::move(model), options.batch),
        options.most_texts);
  }

  void answer(
      http::Request request,
      const std::shared_ptr<http::Exchange>& exchange);
  http::Reply answer_get(const std::string& path) const;
  using Api = void (*)(
      Service& service,
      const std::shared_ptr<Answering>& answering,
      const json& body);
  void call(
      Api api,
      const http::Request& request,
      const std::shared_ptr<http::Exchange>& exchange);

  TextServerOptions options;
  http::Server server; ///< outlives the texts, whose answers go through it
  Service service;
};

http::Reply TextServer::State::answer_get(const std::string& path) const {
  const auto as_json = [](const json& value) {
    return http::Reply{
        .type = "application/json",
        .body = json_text(value) + "\n"};
  };
  if (path == "/v1/models") {
    return as_json(models_list(service));
  }
  if (path == "/metrics") {
    return {
        .type = "text/plain; version=0.0.4; charset=utf-8",
        .body = service.metrics.text(
            service.queue->size(),
            service.queue->most_texts())};
  }
  if (path == "/health") {
    return as_json({{"status", "ok"}, {"model", service.model_name}});
  }
  if (path == "/") {
    return {
        .type = "text/html; charset=utf-8",
        .body = std::string(page_html()),
        .headers = {
            {"Content-Security-Policy",
             "default-src 'none'; style-src 'unsafe-inline'; "
             "script-src 'unsafe-inline'; connect-src 'self'"}}};
  }
  return {.status = 404, .body = "there is /api, /v1/completions and /\n"};
}

void TextServer::State::answer(
    http::Request request,
    const std::shared_ptr<http::Exchange>& exchange) {
  struct Route {
    std::string_view path;
    Api api;
    bool put; ///< Megatron's clients use PUT
  };
  static constexpr std::array routes{
      Route{"/api", answer_megatron, true},
      Route{"/v1/completions", answer_completions, false}};
  const bool open = request.path == "/" || request.path == "/health";
  if (!open && !is_allowed(request, options.api_key)) {
    exchange->reply(
        {.status = 401,
         .type = "application/json",
         .body = json_text(openai_error(
                     401,
                     "the API key is missing or "
                     "wrong")) +
             "\n",
         .headers = {{"WWW-Authenticate", "Bearer"}}});
    service.metrics.answered("refused", 401);
    return;
  }
  for (const Route& route : routes) {
    if (request.path != route.path) {
      continue;
    }
    if (request.method == "POST" || (route.put && request.method == "PUT")) {
      call(route.api, request, exchange);
    } else {
      exchange->reply(
          {.status = 405,
           .body = route.put ? "only PUT and POST\n" : "only POST\n",
           .headers = {{"Allow", route.put ? "PUT, POST" : "POST"}}});
    }
    return;
  }
  if (request.method != "GET") {
    exchange->reply(
        {.status = 405,
         .body = "only GET\n",
         .headers = {{"Allow", "GET, HEAD"}}});
    return;
  }
  exchange->reply(answer_get(request.path));
}

void TextServer::State::call(
    Api api,
    const http::Request& request,
    const std::shared_ptr<http::Exchange>& exchange) {
  const auto answering =
      std::make_shared<Answering>(service, request.path, exchange);
  const auto refuse = [&](int status, const std::string& message) {
    answering->json(
        status,
        request.path == "/api" ? json(message) : openai_error(status, message));
    answering->done(status, 0, 0);
  };
  try {
    api(service, answering, read_json(request.body));
  } catch (const ApiError& error) {
    refuse(error.status(), error.what());
  } catch (const DataError& error) {
    refuse(400, error.what());
  } catch (const ConfigError& error) {
    refuse(400, error.what());
  }
}

TextServer::TextServer(
    std::shared_ptr<const text::Tokenizer> tokenizer,
    generate::TextModel model,
    const TextServerOptions& options,
    const Logger& logger)
    : state_(std::make_unique<State>(
          std::move(tokenizer),
          std::move(model),
          options,
          logger)) {}
TextServer::~TextServer() = default;
TextServer::TextServer(TextServer&&) noexcept = default;
TextServer& TextServer::operator=(TextServer&&) noexcept = default;

int TextServer::port() const {
  return state_->server.port();
}

void TextServer::serve(const std::function<bool()>& ended) {
  state_->server.serve(
      [this](
          http::Request request,
          const std::shared_ptr<http::Exchange>& exchange) {
        state_->answer(std::move(request), exchange);
      },
      ended,
      state_->options.drain);
}

} // namespace cairn::serve
