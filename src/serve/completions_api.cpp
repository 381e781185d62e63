#include "serve/completions_api.h"

#include "base/internal/utf8.h"
#include "serve/api_error.h"
#include "serve/completion_request.h"
#include "serve/texts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace cairn::serve {
namespace {

using generate::ScoredToken;
using nlohmann::json;

/// What a request and its answer share.
struct Completion {
  CompletionRequest request;
  std::string id;
  std::int64_t created = 0;
  std::vector<std::string> echoes; ///< texts of the prompts, one per text
  /// Bytes of each text that were sent, once something was.
  std::vector<std::optional<std::size_t>> offsets;
};

/// OpenAI's four lists about tokens.
class TokenLists {
 public:
  /// `before`: the token before the first one, if there is one.
  TokenLists(
      const Service& service,
      std::size_t offset,
      std::optional<std::int64_t> before)
      : service_(service), offset_(offset), before_(before) {}

  /// The first token of a prompt has no probability.
  void add_first(std::int64_t token) {
    add_piece(token);
    scores_.push_back(nullptr);
    likeliest_.push_back(nullptr);
  }
  void add(const ScoredToken& token) {
    json best = json::object();
    for (const auto& [id, score] : token.likeliest) {
      best.emplace(piece(id), score);
    }
    likeliest_.push_back(std::move(best));
    scores_.push_back(token.log_probability);
    add_piece(token.id);
  }
  std::size_t offset() const { return offset_; }
  json lists() const {
    return {
        {"tokens", tokens_},
        {"token_logprobs", scores_},
        {"top_logprobs", likeliest_},
        {"text_offset", offsets_}};
  }

 private:
  std::string piece(std::int64_t token) const {
    return well_formed_utf8(
        ShownText::piece(*service_.tokenizer, before_, token));
  }
  void add_piece(std::int64_t token) {
    std::string text = piece(token);
    offsets_.push_back(offset_);
    offset_ += text.size();
    tokens_.push_back(std::move(text));
    before_ = token;
  }

  const Service& service_;
  std::size_t offset_;
  std::optional<std::int64_t> before_;
  json tokens_ = json::array();
  json scores_ = json::array();
  json likeliest_ = json::array();
  json offsets_ = json::array();
};

/// The token before token `from` of a text; none where the prompt is shown
/// first.
std::optional<std::int64_t> before_token(
    const Text& text,
    std::size_t from,
    bool with_prompt) {
  if (from > 0) {
    return text.tokens[from - 1].id;
  }
  return with_prompt || text.prompt.empty() ? std::nullopt
                                            : std::optional(text.prompt.back());
}

void add_prompt(TokenLists& lists, const Text& text) {
  lists.add_first(text.prompt.front());
  for (const ScoredToken& token : text.prompt_scores) {
    lists.add(token);
  }
}

json finish_reason(const Text& text) {
  return !text.ended ? json() : json(text.by_length ? "length" : "stop");
}

/// max_tokens 0 asks for the prompt's scores alone; the one token that was
/// computed is left out.
std::size_t tokens_of(const Completion& completion, const Text& text) {
  return completion.request.most_tokens == 0 ? 0 : text.tokens.size();
}

json choice_of(
    const Service& service,
    const Completion& completion,
    const Text& text,
    std::size_t index) {
  const CompletionRequest& request = completion.request;
  std::string shown = request.echo ? completion.echoes[index] : std::string();
  if (request.most_tokens > 0) {
    shown += text.shown.shown();
  }
  json choice{
      {"index", index},
      {"text", std::move(shown)},
      {"finish_reason",
       request.most_tokens == 0 ? json("length") : finish_reason(text)},
      {"logprobs", nullptr}};
  if (request.logprobs) {
    TokenLists lists(service, 0, before_token(text, 0, request.echo));
    if (request.echo) {
      add_prompt(lists, text);
    }
    for (std::size_t i = 0; i < tokens_of(completion, text); ++i) {
      lists.add(text.tokens[i]);
    }
    choice["logprobs"] = lists.lists();
  }
  return choice;
}

json envelope(const Service& service, const Completion& completion) {
  return {
      {"id", completion.id},
      {"object", "text_completion"},
      {"created", completion.created},
      {"model", service.model_name},
      {"choices", json::array()}};
}

struct Usage {
  std::int64_t prompt = 0;
  std::int64_t completion = 0;
};

Usage usage_of(const Completion& completion, const std::vector<Text>& texts) {
  Usage usage;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    // A prompt counts once, however many texts follow it.
    if (i % static_cast<std::size_t>(completion.request.texts) == 0) {
      usage.prompt += texts[i].prompt_tokens;
    }
    usage.completion +=
        static_cast<std::int64_t>(tokens_of(completion, texts[i]));
  }
  return usage;
}

json usage_json(const Usage& usage) {
  return {
      {"prompt_tokens", usage.prompt},
      {"completion_tokens", usage.completion},
      {"total_tokens", usage.prompt + usage.completion}};
}

std::string event(const json& data) {
  return "data: " + json_text(data) + "\n\n";
}

/// Texts that are sent as they grow.
class Streaming {
 public:
  Streaming(
      const Service& service,
      std::shared_ptr<Answering> answering,
      std::shared_ptr<Completion> completion)
      : service_(service),
        answering_(std::move(answering)),
        completion_(std::move(completion)) {}

  void grow(
      const Text& text,
      std::size_t index,
      std::string shown,
      std::size_t from) {
    const CompletionRequest& request = completion_->request;
    const bool first = !completion_->offsets[index];
    TokenLists lists(
        service_,
        completion_->offsets[index].value_or(0),
        before_token(text, from, first && request.echo));
    if (first && request.echo) {
      shown.insert(0, completion_->echoes[index]);
      if (request.logprobs) {
        add_prompt(lists, text);
      }
    }
    if (request.logprobs) {
      for (std::size_t i = from; i < text.tokens.size(); ++i) {
        lists.add(text.tokens[i]);
      }
    }
    completion_->offsets[index] = lists.offset();
    json data = envelope(service_, *completion_);
    data["choices"].push_back(
        {{"index", index},
         {"text", std::move(shown)},
         {"finish_reason", finish_reason(text)},
         {"logprobs", request.logprobs ? lists.lists() : json()}});
    answering_->exchange().write(event(data));
  }

 private:
  const Service& service_;
  std::shared_ptr<Answering> answering_;
  std::shared_ptr<Completion> completion_;
};

std::vector<AskedText> asked_texts(Service& service, Completion& completion) {
  const CompletionRequest& request = completion.request;
  std::vector<AskedText> asked;
  for (const auto& prompt : request.prompts) {
    std::vector<std::int64_t> tokens;
    std::string echo;
    if (const auto* const text = std::get_if<std::string>(&prompt)) {
      tokens = service.encode(*text, text->empty());
      echo = *text;
    } else {
      tokens = std::get<std::vector<std::int64_t>>(prompt);
      service.check(tokens);
      const std::vector<text::TokenId> ids(tokens.begin(), tokens.end());
      echo = service.tokenizer->decode(ids);
    }
    const generate::Beginning beginning = service.beginning(tokens);
    for (std::int64_t i = 0; i < request.texts; ++i) {
      const std::uint64_t number =
          request.seed ? asked.size() : service.next_text++;
      asked.push_back(
          {.request =
               {.prompt = beginning.prompt,
                .source = beginning.source,
                .sampling = request.sampling,
                .most_tokens = std::clamp<std::int64_t>(
                    request.most_tokens,
                    1,
                    service.most_new_tokens),
                .seed = request.seed.value_or(service.seed),
                .number = number,
                .end = service.end_token,
                .vocabulary = service.vocabulary(),
                .likeliest = request.logprobs.value_or(0),
                .of_prompt = request.echo && request.logprobs},
           .stops = request.stops});
      completion.echoes.push_back(echo);
    }
  }
  completion.offsets.resize(asked.size());
  return asked;
}

/// Tokens of prompt and text together. A T5's prompts and texts have limits of
/// their own.
std::int64_t longest_text(const Service& service) {
  return service.reads_prompts()
      ? service.longest_prompt() + service.most_new_tokens
      : service.queue->longest();
}

} // namespace

json openai_error(int status, const std::string& message) {
  return {
      {"error",
       {{"message", message},
        {"type",
         status == 429       ? "rate_limit_error"
             : status >= 500 ? "server_error"
                             : "invalid_request_error"},
        {"param", nullptr},
        {"code", nullptr}}}};
}

json models_list(const Service& service) {
  return {
      {"object", "list"},
      {"data",
       json::array(
           {{{"id", service.model_name},
             {"object", "model"},
             {"created", 0},
             {"owned_by", "cairn"},
             {"continues_prompt", !service.reads_prompts()},
             {"max_model_len", longest_text(service)}}})}};
}

void answer_completions(
    Service& service,
    const std::shared_ptr<Answering>& answering,
    const json& body) {
  const auto completion = std::make_shared<Completion>();
  completion->request = read_completion_request(body, service.sampling);
  const auto& model = completion->request.model;
  if (model && *model != service.model_name) {
    throw ApiError(
        404,
        fmt::format(
            "the model \"{}\" is not here; this is \"{}\"",
            *model,
            service.model_name));
  }
  if (service.reads_prompts() && completion->request.echo) {
    throw ApiError(
        400,
        "echo: must be false, because this model is a T5, which reads the "
        "prompt and writes another text");
  }
  completion->created = std::chrono::duration_cast<std::chrono::seconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
  completion->id =
      fmt::format("cmpl-{}-{}", completion->created, service.next_text);
  std::vector<AskedText> asked = asked_texts(service, *completion);
  const std::size_t count = asked.size();
  const bool streams = completion->request.stream;
  TextsCallbacks callbacks;
  if (streams) {
    callbacks.grown =
        [stream = std::make_shared<Streaming>(service, answering, completion)](
            const Text& text,
            std::size_t index,
            std::string shown,
            std::size_t from) {
          stream->grow(text, index, std::move(shown), from);
        };
  }
  callbacks.done = [&service, answering, completion, streams](
                       const std::vector<Text>& texts) {
    const Usage usage = usage_of(*completion, texts);
    json data = envelope(service, *completion);
    data["usage"] = usage_json(usage);
    if (streams) {
      answering->exchange().write(event(data) + "data: [DONE]\n\n");
      answering->exchange().end();
    } else {
      for (std::size_t i = 0; i < texts.size(); ++i) {
        data["choices"].push_back(choice_of(service, *completion, texts[i], i));
      }
      answering->json(200, data);
    }
    answering->done(200, texts.size(), usage.completion);
  };
  callbacks.failed = [answering, streams, count](const std::string& why) {
    if (streams) {
      answering->exchange().write(event(openai_error(503, why)));
      answering->exchange().end();
    } else {
      answering->json(503, openai_error(503, why));
    }
    answering->done(503, count, 0);
  };
  callbacks.started = [answering, streams] {
    if (streams) {
      answering->exchange().begin({.type = "text/event-stream"});
    }
  };
  start_texts(service, answering, std::move(asked), std::move(callbacks));
}

} // namespace cairn::serve
