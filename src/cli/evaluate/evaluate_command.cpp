// `cairn evaluate`: Megatron's tasks/main.py, with its flags.

#include "cli/evaluate/run_finetuning.h"
#include "cli/generate/load_generator.h"
#include "cli/program/command.h"
#include "cli/train/join_job.h"
#include "config/internal/actors.h"
#include "config/internal/reference.h"
#include "evaluate/internal/finetune.h"
#include "evaluate/internal/zero_shot.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/environment.h>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

using config::Actor;

void print_evaluate_help() {
  fmt::print(
      "Usage: cairn evaluate --task TASK --valid-data FILE --load DIR "
      "[FLAGS…]\n"
      "       cairn launch --num_gpus N evaluate --task TASK …\n\n"
      "Measures how well a GPT or Llama from a checkpoint of any format does a "
      "task:\n\n"
      "  WIKITEXT103  perplexity of a WikiText file, by token and by word\n"
      "  LAMBADA      does it foresee the last word of each text?\n"
      "  HELLASWAG    is the right one of four endings the likeliest?\n"
      "  PPL          perplexity and bits per byte of a text, of lines of "
      "JSON, or\n"
      "               of a corpus (--data-path)\n\n"
      "Or fine-tunes a BERT and evaluates it, for RACE, MNLI, QQP, QNLI, "
      "SST-2, CoLA,\nSTS-B, MRPC or RTE: see `cairn evaluate --task MNLI "
      "--help`.\n\n"
      "The checkpoint says what its model is; flags that describe it must "
      "agree. Flags\nabout training are taken as well, and change nothing.\n\n"
      "Examples:\n"
      "  cairn evaluate --task WIKITEXT103 --valid-data wiki.test.tokens "
      "--load gpt2-hf\n"
      "  cairn launch --num_gpus 4 evaluate --task LAMBADA --strict-lambada "
      "\\\n"
      "      --valid-data lambada_test.jsonl --load checkpoints "
      "--tokenizer-model gpt2 \\\n"
      "      --tensor-model-parallel-size 2 --bf16 --output results.json\n\n"
      "{}",
      config::flags_text(Actor::evaluate));
}

void check_flags(const config::Config& config, const Logger& logger) {
  if (!config.flags.validation.task) {
    throw ConfigError(
        {.what = "no task is named",
         .where = "--task",
         .remedy = "see `cairn evaluate --help`"});
  }
  config::refuse_unused_flags(
      config,
      Actor::evaluate,
      Actor::pretrain | Actor::finetune);
  for (const std::string& warning : config.warnings) {
    logger.warning("{}", warning);
  }
  std::vector<std::string> about_training;
  for (const auto& [name, place] : config.given) {
    if (name.starts_with("--") && !config::acts_on(Actor::evaluate, name)) {
      about_training.push_back(name);
    }
  }
  if (!about_training.empty()) {
    logger.info(
        "about training, and without effect here: {}",
        fmt::join(about_training, ", "));
  }
  if (!config.flags.checkpointing.load) {
    throw ConfigError(
        {.what = "no checkpoint is named",
         .where = "--load",
         .remedy = "see `cairn evaluate --help`"});
  }
}

/// Prints Megatron's line every --log-interval batches. On a terminal it prints
/// nothing, because a bar moves there.
evaluate::ZeroShot::OnIteration iteration_lines(const config::Config& config) {
  if (::isatty(STDOUT_FILENO) == 1) {
    return {};
  }
  return
      [interval = config.flags.logging.log_interval](std::int64_t iteration) {
        if (iteration % interval == 0) {
          fmt::print("> working on iteration: {}\n", iteration);
          std::fflush(stdout);
        }
      };
}

/// Prints the line between rules, as Megatron does.
void print_result(const std::string& line) {
  const std::string rule(line.size() + 1, '-');
  fmt::print("{}\n{}\n{}\n", rule, line, rule);
}

} // namespace

int run_evaluate(const Arguments& arguments) {
  const auto asks_for_help = [](const std::string& word) {
    return word == "--help" || word == "-h";
  };
  if (arguments.empty() || std::ranges::any_of(arguments, asks_for_help)) {
    const bool fine_tunes =
        std::ranges::any_of(arguments, evaluate::is_finetune_task);
    fine_tunes ? print_finetuning_help() : print_evaluate_help();
    return exit_ok;
  }
  const distributed::Environment environment = distributed::read_environment();
  Arguments flags = arguments;
  const bool keep_last_batch = take_keep_last(flags);
  const config::Config config = config::Config::load(
      {.flags = flags, .world_size = environment.world_size});
  if (evaluate::is_finetune_task(config.flags.validation.task.value_or(""))) {
    return run_finetuning(config, keep_last_batch);
  }
  const bool speaks = environment.rank == 0;
  const Logger logger(
      {.rank = environment.rank,
       .world_size = environment.world_size,
       .least = speaks ? LogLevel::info : LogLevel::error});
  check_flags(config, logger);
  const auto& output = config.flags.validation.output;
  if (output && speaks) {
    const AtomicFile trial(*output); // before hours of work
  }
  StoredTextModel model = open_text_model(config);
  generate::require_left_to_right(model.stored.description);
  const evaluate::ZeroShot task(
      config,
      {std::move(model.tokenizer), std::move(model.stored)},
      logger);
  return run_in_job(
      config.flags.distributed,
      [&](const distributed::World& world) {
        const evaluate::ZeroShotReport report = task.run(
            world,
            speaks ? iteration_lines(config)
                   : evaluate::ZeroShot::OnIteration());
        if (speaks) {
          print_result(report.line);
          if (output) {
            write_file_atomically(*output, std::string_view(report.json));
          }
        }
        return exit_ok;
      });
}

} // namespace cairn::cli
