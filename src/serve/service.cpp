#include "serve/service.h"

#include "serve/api_error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace cairn::serve {

std::vector<std::int64_t> Service::encode(
    std::string_view prompt,
    bool add_begin) {
  std::vector<text::TokenId> ids;
  encoder->encode(prompt, ids);
  std::vector<std::int64_t> tokens(ids.begin(), ids.end());
  // Some tokenizers put an end after every text.
  const text::SpecialIds& special = tokenizer->special();
  while (!tokens.empty() &&
         (tokens.back() == end_token ||
          tokens.back() == special.end_of_document ||
          tokens.back() == special.separator)) {
    tokens.pop_back();
  }
  if (reads_prompts()) {
    if (tokens.empty()) {
      throw ApiError(400, "a T5 writes nothing without a text to read");
    }
    if (model.end_token) {
      tokens.push_back(*model.end_token);
    }
    check(tokens);
    return tokens;
  }
  const bool begins = model::begins_texts(model);
  const auto first = begin_token ? begin_token : end_token;
  if (first && (add_begin || (begins && begin_token)) &&
      (tokens.empty() || tokens.front() != *first)) {
    tokens.insert(tokens.begin(), *first);
  }
  check(tokens);
  return tokens;
}

void Service::check(const std::vector<std::int64_t>& prompt) const {
  if (prompt.empty()) {
    throw ApiError(400, "a prompt without a token");
  }
  if (reads_prompts() && std::ssize(prompt) > longest_prompt()) {
    throw ApiError(
        400,
        fmt::format(
            "the prompt has {} tokens, and this model reads at most {}",
            prompt.size(),
            longest_prompt()));
  }
  if (!reads_prompts() && std::ssize(prompt) > longest_prompt()) {
    throw ApiError(
        400,
        fmt::format(
            "the prompt leaves no room for a continuation: it has {} tokens, "
            "and a text has at most {}",
            prompt.size(),
            queue->longest()));
  }
  for (const std::int64_t id : prompt) {
    if (id < 0 || id >= vocabulary()) {
      throw ApiError(400, fmt::format("there is no token {}", id));
    }
  }
}

std::int64_t Service::longest_prompt() const {
  return reads_prompts() ? std::min(most_source_tokens, queue->longest_source())
                         : queue->longest() - 1;
}

std::optional<std::int64_t> Service::token_of(std::string_view text) {
  std::vector<text::TokenId> ids;
  encoder->encode(text, ids);
  return ids.size() == 1 ? std::optional<std::int64_t>(ids.front())
                         : std::nullopt;
}

Answering::Answering(
    Service& service,
    std::string path,
    std::shared_ptr<http::Exchange> exchange)
    : service_(service),
      path_(std::move(path)),
      exchange_(std::move(exchange)) {}

void Answering::json(int status, const nlohmann::json& body) {
  http::Reply reply{
      .status = status,
      .type = "application/json",
      .body = json_text(body) + "\n"};
  if (status == 429) {
    reply.headers.emplace_back("Retry-After", "1");
  }
  exchange_->reply(std::move(reply));
}

void Answering::done(int status, std::size_t texts, std::int64_t tokens) {
  service_.metrics.answered(path_, status);
  if (!silent_) {
    service_.logger.info(
        "{} {}: {} {}, {} tokens, {:.2f} s",
        path_,
        status,
        texts,
        texts == 1 ? "text" : "texts",
        tokens,
        seconds());
  }
}

double Answering::seconds() const {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now() - begin_)
      .count();
}

std::string json_text(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace cairn::serve
