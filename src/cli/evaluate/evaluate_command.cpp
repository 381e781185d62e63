// `cairn evaluate`: Megatron's tasks/main.py, with its flags.

#include "cli/program/command.h"
#include "config/internal/reference.h"

#include <cairn/base/error.h>
#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/environment.h>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace cairn::cli {
namespace {

void print_evaluate_help() {
  fmt::print(
      "Usage: cairn evaluate --task TASK --valid-data FILE --load DIR "
      "[FLAGS…]\n"
      "       cairn launch --num_gpus N evaluate --task TASK …\n\n"
      "Measures how well the model of a checkpoint, of any format, does a "
      "task:\n\n"
      "  WIKITEXT103  perplexity of a WikiText file, by token and by word\n"
      "  LAMBADA      is the last word of a text foreseen?\n"
      "  HELLASWAG    is the right one of four endings the likeliest?\n"
      "  PPL          perplexity and bits per byte of any text\n\n"
      "{}",
      config::flags_text(config::Actor::evaluate));
}

/// The tasks that BERT is fine-tuned for.
bool is_fine_tuned(std::string_view task) {
  constexpr std::array<std::string_view, 9> tasks{
      "RACE",
      "MNLI",
      "QQP",
      "QNLI",
      "SST-2",
      "CoLA",
      "STS-B",
      "MRPC",
      "RTE"};
  return std::ranges::find(tasks, task) != tasks.end();
}

} // namespace

int run_evaluate(const Arguments& arguments) {
  const auto asks_for_help = [](const std::string& word) {
    return word == "--help" || word == "-h";
  };
  if (arguments.empty() || std::ranges::any_of(arguments, asks_for_help)) {
    print_evaluate_help();
    return exit_ok;
  }
  const config::Config config = config::Config::load(
      {.flags = arguments,
       .world_size = distributed::read_environment().world_size});
  const auto& task = config.flags.validation.task;
  if (!task) {
    throw ConfigError(
        {.what = "no task is named",
         .where = "--task",
         .remedy = "see `cairn evaluate --help`"});
  }
  if (is_fine_tuned(*task)) {
    throw ConfigError(
        {.what = "models are not fine-tuned for this task",
         .where = "--task",
         .values = *task});
  }
  return exit_ok;
}

} // namespace cairn::cli
