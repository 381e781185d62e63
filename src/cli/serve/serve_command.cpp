// `cairn serve`: Megatron's tools/run_text_generation_server.py, with its
// flags, and OpenAI's completions.

#include "cli/generate/generate_flags.h"
#include "cli/generate/generation_plan.h"
#include "cli/generate/load_generator.h"
#include "cli/program/command_line.h"
#include "cli/serve/key_file.h"
#include "cli/train/stop_signal.h"
#include "config/internal/reference.h"
#include "serve/internal/text_server.h"

#include <cairn/base/error.h>
#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/environment.h>

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::cli {
namespace {

/// Flags about serving. The others are those of `cairn generate`.
struct ServeFlags {
  int port = 5000;
  std::string host = "127.0.0.1";
  std::string api_key_file;
  std::string model_name;
  std::int64_t max_texts = 1024;
  std::int64_t max_new_tokens = 4096;
  std::int64_t max_source_tokens = 2048;
  std::int64_t max_connections = 4096;
  std::optional<std::int64_t> cache_tokens;
};

void add_flags(CLI::App& app, ServeFlags& flags) {
  app.add_option("--port", flags.port, "port to listen on; 0 takes any")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option(
         "--host",
         flags.host,
         "address to listen on; 0.0.0.0 is every network")
      ->capture_default_str();
  app.add_option(
      "--api-key-file",
      flags.api_key_file,
      "file with a key that every request must bring");
  app.add_option(
      "--served-model-name",
      flags.model_name,
      "name in /v1/models (default: the checkpoint's folder)");
  app.add_option(
         "--max-texts",
         flags.max_texts,
         "texts that may be computed or wait; more get status 429")
      ->check(at_least(1))
      ->capture_default_str();
  app.add_option(
         "--max-new-tokens",
         flags.max_new_tokens,
         "tokens of one text after its prompt")
      ->check(at_least(1))
      ->capture_default_str();
  app.add_option(
         "--max-source-tokens",
         flags.max_source_tokens,
         "T5: tokens of one prompt, which is read at once")
      ->check(at_least(1))
      ->capture_default_str();
  app.add_option(
         "--max-connections",
         flags.max_connections,
         "clients at a time; more get status 503")
      ->check(at_least(1))
      ->capture_default_str();
  app.add_option(
         "--cache-tokens",
         flags.cache_tokens,
         "tokens that the cache of keys and values has room for")
      ->check(at_least(1));
}

/// The arguments for `app`, and the rest.
std::pair<Arguments, Arguments> split(
    const CLI::App& app,
    const Arguments& arguments) {
  std::pair<Arguments, Arguments> parts;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i].substr(0, arguments[i].find('='));
    std::ranges::replace(name, '_', '-');
    const bool is_own =
        name.starts_with("--") && app.get_option_no_throw(name) != nullptr;
    (is_own ? parts.first : parts.second).push_back(arguments[i]);
    if (is_own && name.size() == arguments[i].size() &&
        i + 1 < arguments.size()) {
      parts.first.push_back(arguments[++i]);
    }
  }
  return parts;
}

void print_help() {
  ServeFlags defaults;
  CLI::App app;
  add_flags(app, defaults);
  fmt::print(
      "Usage: cairn serve --load DIR [FLAGS…]\n"
      "       cairn launch --num_gpus N serve --load DIR "
      "--tensor-model-parallel-size N …\n\n"
      "Serves a GPT, Llama or T5 from a checkpoint of any format over HTTP:\n\n"
      "  PUT or POST /api       Megatron's text generation server\n"
      "  POST /v1/completions   OpenAI's completions, streamed or not\n"
      "  GET /                  a page to try the model\n"
      "  GET /v1/models, /health, /metrics\n\n"
      "It listens on this machine alone unless --host says otherwise. Ctrl-C "
      "or "
      "SIGTERM\nends it after the texts under way.\n\n"
      "Examples:\n"
      "  cairn serve --load checkpoints --tokenizer-model tokenizer.json\n"
      "  cairn serve --load gpt2-hf --port 8000 --bf16\n\n{}\n{}",
      app.help(),
      config::flags_text(config::Actor::generate));
}

/// As many clients need as many file descriptors.
void allow_connections(std::int64_t connections) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    const auto wanted = static_cast<rlim_t>(connections + 256);
    limit.rlim_cur = std::min(std::max(limit.rlim_cur, wanted), limit.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

bool is_stopped() {
  try {
    throw_if_stopped();
  } catch (const Stopped&) {
    return true;
  }
  return false;
}

/// Throws ConfigError for flags about texts that `cairn generate` writes: here
/// every request says for itself what it wants.
void refuse_flags_of_generate(const config::Config& config) {
  for (const char* flag :
       {"--num-samples",
        "--genfile",
        "--sample-input-file",
        "--sample-output-file",
        "--prompt-ids",
        "--beam-width",
        "--length-penalty",
        "--stop",
        "--stop-token-ids",
        "--return-log-probs",
        "--top-n-logprobs"}) {
    if (config.given.contains(flag)) {
      throw ConfigError(
          {.what = "is a flag of `cairn generate`",
           .where = flag,
           .remedy = "leave it out; requests to the server say what they want, "
                     "with keys of their own"});
    }
  }
}

serve::TextServerOptions options_of(
    const ServeFlags& flags,
    const config::Config& config) {
  const config::GenerationFlags& generation = config.flags.generation;
  serve::TextServerOptions options{
      .address = flags.host,
      .port = flags.port,
      .model_name = flags.model_name,
      .most_texts = static_cast<std::size_t>(flags.max_texts),
      .most_new_tokens = flags.max_new_tokens,
      .most_source_tokens = flags.max_source_tokens,
      .most_connections = static_cast<std::size_t>(flags.max_connections),
      .seed = static_cast<std::uint64_t>(config.flags.training.seed),
      .sampling = {
          .greedy = generation.greedy,
          .temperature = generation.temperature,
          .top_k = generation.top_k,
          .top_p = generation.top_p,
          .repetition_penalty = generation.repetition_penalty,
          .top_p_decay = generation.top_p_decay,
          .top_p_bound = generation.top_p_bound}};
  if (options.model_name.empty()) {
    options.model_name =
        std::filesystem::absolute(*config.flags.checkpointing.load)
            .lexically_normal()
            .filename()
            .string();
  }
  if (!flags.api_key_file.empty()) {
    options.api_key = read_key_file(flags.api_key_file);
  }
  const std::int64_t at_once = options.batch.most_texts;
  options.batch = batch_options(config);
  options.batch.cache_tokens = flags.cache_tokens;
  if (!config.given.contains("--micro-batch-size")) {
    options.batch.most_texts = at_once;
  }
  return options;
}

} // namespace

int run_serve(const Arguments& arguments) {
  const auto asks_for_help = [](const std::string& word) {
    return word == "--help" || word == "-h";
  };
  if (arguments.empty() || std::ranges::any_of(arguments, asks_for_help)) {
    print_help();
    return exit_ok;
  }
  CommandLine line("cairn serve --load DIR [FLAGS…]", "cairn serve --help");
  ServeFlags flags;
  add_flags(line.app(), flags);
  auto [own, others] = split(line.app(), arguments);
  line.parse(own);
  const distributed::Environment here = distributed::read_environment();
  const auto plan = take_plan_request(others);
  const config::Config config =
      config::Config::load({.flags = others, .fewest_ranks = true});
  const Logger logger = command_logger(here);
  check_generate_flags(
      config,
      logger,
      plan ? Checkpoint::any : Checkpoint::named);
  refuse_flags_of_generate(config);
  if (plan) {
    print_generation_plan(config, *plan, here);
    return exit_ok;
  }
  check_ranks(config, here.world_size, logger);
  if (here.rank > 0) {
    watch_stop_signals(); // rank 0 says when the end has come
    share_model(config, join_text_job(config)).follow();
    return exit_ok;
  }
  const serve::TextServerOptions options = options_of(flags, config);
  allow_connections(flags.max_connections);
  const distributed::World world = join_text_job(config);
  LoadedTextModel loaded = load_text_model(config, world);
  const generate::TextModel model = loaded.model;
  serve::TextServer server(
      std::move(loaded.tokenizer),
      std::move(loaded.model),
      options,
      logger);
  watch_stop_signals();
  fmt::print("http://{}:{}/ until Ctrl-C\n", options.address, server.port());
  std::fflush(stdout);
  server.serve([&] { return is_stopped() || model.has_failed(); });
  model.throw_if_failed();
  return exit_ok;
}

} // namespace cairn::cli
