// `cairn chat`: Megatron's tools/text_generation_cli.py.

#include "cli/program/command_line.h"
#include "cli/serve/key_file.h"
#include "http/internal/client.h"

#include <cairn/base/error.h>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>

namespace cairn::cli {
namespace {

using nlohmann::json;

/// The next line that a person types; nothing at the end of the input.
std::optional<std::string> ask(const char* question) {
  fmt::print("{}", question);
  std::fflush(stdout);
  std::string line;
  if (!std::getline(std::cin, line)) {
    return std::nullopt;
  }
  return line;
}

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0
      ? std::optional(value)
      : std::nullopt;
}

/// The number of tokens, asked for until it is one.
std::optional<std::int64_t> ask_tokens() {
  while (true) {
    const auto answer = ask("Enter number of tokens to generate: ");
    if (!answer) {
      return std::nullopt;
    }
    if (const auto tokens = whole_number(*answer)) {
      return tokens;
    }
    fmt::print("A whole number above 0.\n");
  }
}

void show(const http::ClientReply& reply) {
  const json value =
      json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  const bool has_text = value.is_object() && value.contains("text") &&
      value["text"].is_array() && !value["text"].empty() &&
      value["text"][0].is_string();
  if (reply.status == 200 && has_text) {
    fmt::print(
        "Megatron Response: \n{}\n",
        value["text"][0].get_ref<const std::string&>());
    return;
  }
  const json message =
      value.is_object() ? value.value("message", value) : value;
  fmt::print(
      "Error {}: {}\n",
      reply.status,
      message.is_string() ? message.get<std::string>() : reply.body);
}

} // namespace

int run_chat(const Arguments& arguments) {
  CommandLine line(
      "cairn chat HOST:PORT [--api-key-file FILE]",
      "cairn chat localhost:5000");
  line.app().description(
      "Asks for prompts and shows how the model at a server goes on with "
      "them:\n"
      "`cairn serve`, or Megatron's text generation server. Ctrl-D ends.");
  std::string server;
  std::string key_file;
  line.app().add_option("SERVER", server, "host and port, or an address");
  line.app().add_option(
      "--api-key-file",
      key_file,
      "file with the key that the server asks for");
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  if (server.empty()) {
    throw ConfigError(
        {.what = "which server?",
         .remedy =
             "name its host and port, as in `cairn chat localhost:5000`"});
  }
  const std::string address =
      (server.find("://") == server.npos ? "http://" + server : server) +
      "/api";
  const std::string key = key_file.empty() ? "" : read_key_file(key_file);
  while (const auto prompt = ask("Enter prompt: ")) {
    const auto tokens = ask_tokens();
    if (!tokens) {
      break;
    }
    const json request{
        {"prompts", json::array({*prompt})},
        {"tokens_to_generate", *tokens}};
    show(http::put_json(
        address,
        request.dump(-1, ' ', false, json::error_handler_t::replace),
        key));
  }
  fmt::print("\n");
  return exit_ok;
}

} // namespace cairn::cli
