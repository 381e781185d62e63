#include "serve/megatron_api.h"

#include "serve/api_error.h"
#include "serve/megatron_request.h"
#include "serve/texts.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace cairn::serve {
namespace {

using generate::ScoredToken;
using nlohmann::json;
using Tokens = std::vector<ScoredToken>;

/// A text ends after a line, or after an empty one.
std::function<bool(const Tokens&)> ends_of_lines(
    Service& service,
    const MegatronRequest& request) {
  if (!request.stop_on_eol && !request.stop_on_double_eol) {
    return {};
  }
  return [line = service.token_of("\n"),
          twice = service.token_of("\n\n"),
          request](const Tokens& tokens) {
    const std::int64_t last = tokens.back().id;
    if (request.stop_on_eol && last == line) {
      return true;
    }
    const bool after_line =
        tokens.size() > 1 && tokens[tokens.size() - 2].id == line;
    return request.stop_on_double_eol &&
        (last == twice || (last == line && after_line));
  };
}

/// Throws ApiError for what only a model that continues its prompt can do.
void check_for_reader(const MegatronRequest& request) {
  if (request.add_bos) {
    throw ApiError(
        400,
        "add_BOS must be false: this model is a T5, whose prompts have no "
        "begin token");
  }
  if (request.tokens_to_generate == 0) {
    throw ApiError(
        400,
        "tokens_to_generate must be greater than 0: this model is a T5, which "
        "gives a prompt no logprobs");
  }
}

generate::TextRequest request_for(
    Service& service,
    const MegatronRequest& request,
    std::size_t number) {
  generate::Beginning beginning = service.beginning(
      service.encode(request.prompts[number], request.add_bos));
  generate::TextRequest text{
      .prompt = std::move(beginning.prompt),
      .source = std::move(beginning.source),
      .sampling = request.sampling,
      // Megatron also scores a prompt without continuing it.
      .most_tokens = std::max<std::int64_t>(
          1,
          std::min(request.tokens_to_generate, service.most_new_tokens)),
      .seed = request.random_seed.value_or(service.seed),
      .number = request.random_seed ? number : service.next_text++,
      .end = request.stop_token ? request.stop_token : service.end_token,
      .vocabulary = service.vocabulary(),
      .of_prompt = request.logprobs};
  if (request.prevent_newline_after_colon) {
    const auto colon = service.token_of(":");
    const auto line = service.token_of("\n");
    if (colon && line) {
      text.forbidden = {{.after = *colon, .token = *line}};
    }
  }
  return text;
}

/// The pieces of a text, one for each token.
json segments(const Service& service, const std::vector<std::int64_t>& text) {
  json all = json::array();
  std::optional<std::int64_t> before;
  for (const std::int64_t id : text) {
    all.push_back(ShownText::piece(*service.tokenizer, before, id));
    before = id;
  }
  return all;
}

std::vector<std::int64_t> tokens_of(const Text& text, std::size_t tokens) {
  std::vector<std::int64_t> all = text.prompt;
  for (std::size_t i = 0; i < tokens; ++i) {
    all.push_back(text.tokens[i].id);
  }
  return all;
}

json log_probabilities(const Text& text, std::size_t tokens) {
  json all = json::array();
  for (const ScoredToken& token : text.prompt_scores) {
    all.push_back(token.log_probability);
  }
  for (std::size_t i = 0; i < tokens; ++i) {
    all.push_back(text.tokens[i].log_probability);
  }
  return all;
}

json reply_to(
    const Service& service,
    const MegatronRequest& request,
    const std::vector<Text>& texts) {
  json reply{{"text", json::array()}, {"segments", json::array()}};
  json scores = json::array();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Text& text = texts[i];
    const bool scored_only = request.tokens_to_generate == 0;
    const std::size_t tokens = scored_only ? 0 : text.tokens.size();
    reply["text"].push_back(
        (service.reads_prompts() ? "" : request.prompts[i]) +
        (scored_only ? "" : text.shown.shown()));
    reply["segments"].push_back(segments(service, tokens_of(text, tokens)));
    scores.push_back(log_probabilities(text, tokens));
  }
  reply["logprobs"] = request.logprobs ? scores : json();
  return reply;
}

/// The best texts after the one prompt of a request, with their scores.
void search_beams(
    Service& service,
    const std::shared_ptr<Answering>& answering,
    const MegatronRequest& request) {
  const generate::Beginning beginning =
      service.beginning(service.encode(request.prompts[0], request.add_bos));
  // What the texts begin with: for a T5 nothing.
  const bool reads = service.reads_prompts();
  const auto prompt = reads ? std::vector<std::int64_t>() : beginning.prompt;
  const std::string first = reads ? "" : request.prompts[0];
  const auto found = [&service, answering, prompt, first](
                         const std::vector<generate::Beam>& beams,
                         const std::string& failure) {
    if (!failure.empty()) {
      answering->json(503, failure);
      answering->done(503, 1, 0);
      return;
    }
    json reply{
        {"text", json::array()},
        {"segments", json::array()},
        {"scores", json::array()}};
    std::int64_t tokens = 0;
    for (const generate::Beam& beam : beams) {
      ShownText shown(*service.tokenizer, prompt, {});
      std::vector<std::int64_t> all = prompt;
      for (const std::int64_t id : beam.tokens) {
        shown.add(id);
        all.push_back(id);
      }
      shown.finish();
      reply["text"].push_back(first + shown.shown());
      reply["segments"].push_back(segments(service, all));
      reply["scores"].push_back(beam.score);
      tokens += static_cast<std::int64_t>(beam.tokens.size());
    }
    service.metrics.new_tokens(tokens);
    answering->json(200, reply);
    answering->done(200, beams.size(), tokens);
  };
  if (!service.beams->submit(
          {.prompt = beginning.prompt,
           .options =
               {.width = *request.beam_width,
                .length_penalty = request.length_penalty,
                .most_tokens = std::clamp<std::int64_t>(
                    request.tokens_to_generate,
                    1,
                    service.most_new_tokens),
                .end =
                    request.stop_token ? request.stop_token : service.end_token,
                .vocabulary = service.vocabulary(),
                .source = beginning.source},
           .on_found = found})) {
    throw ApiError(429, "too many searches are waiting; try again later");
  }
}

} // namespace

void answer_megatron(
    Service& service,
    const std::shared_ptr<Answering>& answering,
    const json& body) {
  const auto request = std::make_shared<const MegatronRequest>(
      read_megatron_request(body, service.sampling));
  if (request->no_log) {
    answering->keep_silent();
  }
  if (service.reads_prompts()) {
    check_for_reader(*request);
  }
  if (request->beam_width) {
    search_beams(service, answering, *request);
    return;
  }
  std::vector<AskedText> asked;
  for (std::size_t i = 0; i < request->prompts.size(); ++i) {
    asked.push_back(
        {.request = request_for(service, *request, i),
         .ends_after = ends_of_lines(service, *request)});
  }
  start_texts(
      service,
      answering,
      std::move(asked),
      {.done =
           [&service, answering, request](const std::vector<Text>& texts) {
             std::int64_t tokens = 0;
             for (const Text& text : texts) {
               tokens += static_cast<std::int64_t>(text.tokens.size());
             }
             answering->json(200, reply_to(service, *request, texts));
             answering->done(200, texts.size(), tokens);
           },
       .failed =
           [answering, request](const std::string& why) {
             answering->json(503, why);
             answering->done(503, request->prompts.size(), 0);
           }});
}

} // namespace cairn::serve
