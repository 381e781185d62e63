#include "base/internal/edit_distance.h"
#include "cli/launch/run_shape.h"
#include "cli/program/command.h"
#include "config/internal/check_kind.h"
#include "config/internal/curriculum_length.h"
#include "config/internal/reference.h"

#include <cairn/base/error.h>
#include <cairn/config/config.h>

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>

namespace cairn::cli {
namespace {

constexpr const char* usage =
    R"(usage: cairn config check [gpt|bert|t5] [FILE] [--world-size N] [FLAGS…]
       cairn config explain NAME…
       cairn config keys | flags | docs
       cairn config support deepspeed | megatron

  check     resolve a DeepSpeed JSON file together with Megatron flags, print
            the result as JSON, or what is wrong with it (exit code 2);
            behind the name of a model, what `cairn pretrain` would make of
            it on so many ranks: mesh, stages, batch, parameters, memory.
            @FILE stands for the flags in a file
  explain   say what a key (zero_optimization.stage, or just stage) or a flag
            (--lr) means; a section lists what is in it
  keys      list every JSON key with its default
  flags     list every flag, group by group
  docs      print the reference page as Markdown
  support   list what works, has no effect or is refused of DeepSpeed's keys
            or Megatron-LM's flags, as Markdown
)";

[[noreturn]] void fail_usage(std::string what) {
  throw ConfigError(
      {.what = std::move(what), .remedy = "see `cairn config --help`"});
}

std::int64_t world_size_from(const std::string& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 1) {
    throw ConfigError(
        {.what = fmt::format("\"{}\" is no number of ranks", text),
         .where = "--world-size"});
  }
  return value;
}

struct CheckRequest {
  std::optional<model::ModelKind> kind;
  config::ConfigSource source;
};

CheckRequest request_from(Arguments arguments) {
  CheckRequest request;
  request.kind = model::model_kind_named(arguments.front());
  if (request.kind) {
    arguments.erase(arguments.begin());
  }
  config::ConfigSource& source = request.source;
  const std::string name = "--world-size";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& each = arguments[i];
    if (each == name) {
      if (++i == arguments.size()) {
        throw ConfigError({.what = "takes a value, got none", .where = name});
      }
      source.world_size = world_size_from(arguments[i]);
    } else if (each.starts_with(name + "=")) {
      source.world_size = world_size_from(each.substr(name.size() + 1));
    } else if (i == 0 && !each.starts_with("-") && !each.starts_with("@")) {
      source.file = each;
    } else if (
        each.starts_with("--") &&
        edit_distance(each.substr(0, each.find('=')), name) <= 2) {
      throw ConfigError(
          {.what = "unknown flag",
           .where = each.substr(0, each.find('=')),
           .remedy = "did you mean --world-size?"});
    } else {
      source.flags.push_back(each);
    }
  }
  return request;
}

bool asks_for_help(const Arguments& arguments) {
  return std::any_of(
      arguments.begin(),
      arguments.end(),
      [](const std::string& each) { return each == "--help" || each == "-h"; });
}

int check(const Arguments& arguments) {
  if (arguments.empty()) {
    fail_usage("nothing to check: give a file or flags");
  }
  const CheckRequest request = request_from(arguments);
  const auto resolved = config::Config::resolve(request.source);
  for (const std::string& warning : resolved.warnings) {
    fmt::print(stderr, "warning: {}\n", warning);
  }
  resolved.check();
  fmt::print(stderr, "note: {}\n", config::check_note);
  if (request.kind) {
    config::check_kind(*request.kind, resolved);
    fmt::print("{}", describe(shape_of(*request.kind, resolved), resolved));
    return exit_ok;
  }
  if (resolved.deepspeed.batch) {
    fmt::print(stderr, "{}\n", describe(*resolved.deepspeed.batch));
  }
  if (resolved.deepspeed.elasticity.enabled) {
    fmt::print(stderr, "elastic batch {}\n", shown_elasticity(resolved));
  }
  if (resolved.deepspeed.curriculum.enabled) {
    fmt::print(
        stderr,
        "curriculum {}\n",
        describe(resolved.deepspeed.curriculum));
  }
  fmt::print("{}\n", resolved.json());
  return exit_ok;
}

int explain(const Arguments& names) {
  if (names.empty()) {
    fail_usage("explain what? give a key or a flag");
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    fmt::print("{}{}", i == 0 ? "" : "\n", config::explain(names[i]));
  }
  return exit_ok;
}

int print_support(const Arguments& arguments) {
  const std::string whose = arguments.size() == 1 ? arguments.front() : "";
  if (whose != "deepspeed" && whose != "megatron") {
    fail_usage("support of what? deepspeed or megatron");
  }
  fmt::print(
      "{}",
      whose == "deepspeed" ? config::deepspeed_support()
                           : config::megatron_support());
  return exit_ok;
}

/// The text that a subcommand only prints; none for other subcommands.
std::optional<std::string> listing(const std::string& what) {
  return what == "keys" ? std::optional(config::keys_text())
      : what == "flags" ? std::optional(config::flags_text())
      : what == "docs"  ? std::optional(config::reference_page())
                        : std::nullopt;
}

} // namespace

int run_config(const Arguments& arguments) {
  if (arguments.empty()) {
    fail_usage("what about the configuration?");
  }
  const std::string& what = arguments.front();
  const Arguments rest(arguments.begin() + 1, arguments.end());
  if (what == "--help" || what == "-h" || what == "help") {
    fmt::print("{}", usage);
    return exit_ok;
  }
  if (asks_for_help(rest)) {
    fmt::print("{}", usage);
    if (what == "check") {
      fmt::print("\n{}", config::flags_text());
    }
    return exit_ok;
  }
  if (what == "check") {
    return check(rest);
  }
  if (what == "explain") {
    return explain(rest);
  }
  if (what == "support") {
    return print_support(rest);
  }
  if (const auto text = listing(what)) {
    if (!rest.empty()) {
      fail_usage(fmt::format("\"{}\" takes no arguments", what));
    }
    fmt::print("{}", *text);
    return exit_ok;
  }
  fail_usage(fmt::format("\"{}\" is no subcommand of config", what));
}

} // namespace cairn::cli
