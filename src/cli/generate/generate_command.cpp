// `cairn generate`: Megatron's tools/generate_samples_gpt.py, with its flags.

#include "base/internal/progress.h"
#include "cli/generate/generate_flags.h"
#include "cli/generate/generated_file.h"
#include "cli/generate/generation_plan.h"
#include "cli/generate/load_generator.h"
#include "cli/generate/prompt_ids.h"
#include "cli/generate/prompt_lines.h"
#include "cli/program/command.h"
#include "cli/train/typist.h"
#include "config/internal/reference.h"

#include <cairn/base/error.h>
#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/environment.h>

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using generate::GeneratedText;
using generate::TextGenerator;

void print_generate_help() {
  fmt::print(
      "Usage: cairn generate --load DIR [FLAGS…]\n"
      "       cairn launch --num_gpus N generate --load DIR "
      "--tensor-model-parallel-size N …\n\n"
      "Goes on with texts, or begins some, with a GPT or Llama from a "
      "checkpoint of\nany format. Four ways:\n\n"
      "  --num-samples N          texts from nothing, to --genfile or the "
      "screen\n"
      "  --sample-input-file F    a continuation of every line of a file\n"
      "  --prompt-ids 5,17,3      token ids in and out, without a tokenizer\n"
      "  none of them             asks for prompts, until Ctrl-D or "
      "\"stop\"\n\n"
      "The files hold a JSON object per line. The checkpoint says what its "
      "model is;\nflags that describe it must agree. Flags about training are "
      "taken as well, so\nthat those of `cairn pretrain` may stay, and change "
      "nothing.\n\n"
      "  --dry-run[=MEMORY]\n"
      "    says what every rank would hold, and with the memory of a rank "
      "(such "
      "as 80GB)\n    how many tokens its cache has room for; loads nothing\n\n"
      "Examples:\n"
      "  cairn generate --load checkpoints --tokenizer-model tokenizer.json "
      "\\\n      --num-samples 2 --top_p 0.9 --genfile samples.json\n"
      "  cairn generate --load gpt2-hf\n\n{}",
      config::flags_text(config::Actor::generate));
}

enum class ShowProgress { no, yes };

/// Makes `count` texts, a batch at a time, and gives them to `take` in order.
void make_texts(
    TextGenerator& generator,
    std::size_t count,
    std::size_t at_once,
    const std::function<const TextGenerator::Tokens&(std::size_t)>& prompt,
    const std::function<void(std::size_t, const GeneratedText&)>& take,
    ShowProgress show) {
  std::optional<Progress> bar;
  if (show == ShowProgress::yes) {
    bar.emplace(Progress::Options{
        .label = "generating",
        .total = count,
        .unit = "texts",
        .second_unit = "tokens"});
  }
  const auto advance = [&](std::uint64_t texts, std::uint64_t tokens) {
    if (bar) {
      bar->advance(texts, tokens);
    }
  };
  for (std::size_t done = 0; done < count;) {
    std::vector<TextGenerator::Tokens> prompts;
    while (prompts.size() < at_once && done + prompts.size() < count) {
      prompts.push_back(prompt(done + prompts.size()));
    }
    const auto texts = generator.after(prompts, [&](std::size_t, const auto&) {
      advance(0, 1);
    });
    for (const GeneratedText& text : texts) {
      take(done++, text);
      advance(1, 0);
    }
  }
  if (bar) {
    bar->done();
  }
}

void print_sample(std::size_t number, const GeneratedText& text) {
  fmt::print("{}", number == 0 ? "" : "\n---\n");
  print_text(text.text);
  fmt::print("\n");
}

void make_samples(
    TextGenerator& generator,
    std::size_t count,
    std::size_t at_once,
    GeneratedFile* file) {
  const TextGenerator::Tokens nothing = generator.no_prompt();
  if (generator.longest() <= static_cast<std::int64_t>(nothing.size())) {
    throw ConfigError(
        {.what = "leaves no room for a text",
         .where = "--seq-length",
         .values = fmt::format("{}", generator.longest())});
  }
  // Texts on a terminal show the progress by themselves.
  const bool seen = file == nullptr && ::isatty(STDOUT_FILENO) == 1;
  make_texts(
      generator,
      count,
      at_once,
      [&](std::size_t) -> const TextGenerator::Tokens& { return nothing; },
      [&](std::size_t number, const GeneratedText& text) {
        if (file != nullptr) {
          file->add(text);
        } else {
          print_sample(number, text);
        }
      },
      seen ? ShowProgress::no : ShowProgress::yes);
}

/// Throws DataError, with the place, for a prompt that nothing can follow.
TextGenerator::Tokens prompt_tokens(
    TextGenerator& generator,
    const PromptLine& line,
    const std::string& source) {
  const std::string where = fmt::format("{}:{}", source, line.number);
  try {
    return generator.prompt(line.text);
  } catch (const DataError& error) {
    throw DataError({.what = error.what(), .where = where});
  }
}

void continue_lines(
    TextGenerator& generator,
    const std::string& input,
    const std::vector<PromptLine>& lines,
    std::size_t at_once,
    GeneratedFile& file) {
  std::vector<TextGenerator::Tokens> prompts;
  for (const PromptLine& line : lines) {
    prompts.push_back(prompt_tokens(generator, line, input));
  }
  make_texts(
      generator,
      lines.size(),
      at_once,
      [&](std::size_t i) -> const TextGenerator::Tokens& { return prompts[i]; },
      [&](std::size_t i, const GeneratedText& text) {
        file.add(text, lines[i].text);
      },
      ShowProgress::yes);
}

/// Prints a prompt and its continuation, token by token.
void answer(
    TextGenerator& generator,
    const PromptLine& line,
    const std::string& source) {
  const auto prompt = prompt_tokens(generator, line, source);
  print_text(line.text);
  Typist typist;
  generator.after(
      {prompt},
      [&](std::size_t, const TextGenerator::Tokens& so_far) {
        typist.grow(generator.decode(prompt, so_far));
      });
  typist.finish();
}

void converse(TextGenerator& generator, const Logger& logger) {
  const bool person = ::isatty(STDIN_FILENO) == 1;
  if (person) {
    fmt::print("A prompt per line; \"stop\" or Ctrl-D ends.\n");
  }
  std::size_t number = 0;
  while (true) {
    if (person) {
      fmt::print("\nprompt> ");
      std::fflush(stdout);
    }
    const auto line = next_prompt_line(std::cin, number);
    if (!line || line->text == "stop") {
      break;
    }
    try {
      answer(generator, *line, "prompt");
    } catch (const DataError& error) {
      if (!person) {
        throw;
      }
      logger.error("{}", error.what());
    }
  }
  if (person) {
    fmt::print("\n");
  }
}

bool is_conversation(const config::GenerationFlags& flags) {
  return !flags.sample_input_file && !flags.prompt_ids &&
      flags.num_samples == 0;
}

/// Launchers give their ranks no input.
[[noreturn]] void refuse_conversation() {
  throw ConfigError(
      {.what = "prompts are not asked for on several ranks",
       .where = "cairn generate",
       .remedy =
           "give --sample-input-file, --num-samples or --prompt-ids, or "
           "run `cairn serve` on the ranks and `cairn chat` beside them"});
}

/// The file for the texts, if they go to a file.
std::optional<std::string> output_of(const config::GenerationFlags& flags) {
  if (!flags.sample_input_file) {
    return flags.genfile;
  }
  const std::string& input = *flags.sample_input_file;
  const std::string output = flags.sample_output_file.value_or(input + ".out");
  std::error_code error;
  if (fs::equivalent(input, output, error)) {
    throw ConfigError(
        {.what = "the output would replace the input",
         .where = "--sample-output-file",
         .values = output});
  }
  return output;
}

} // namespace

int run_generate(const Arguments& arguments) {
  const auto asks_for_help = [](const std::string& word) {
    return word == "--help" || word == "-h";
  };
  if (arguments.empty() || std::ranges::any_of(arguments, asks_for_help)) {
    print_generate_help();
    return exit_ok;
  }
  const distributed::Environment here = distributed::read_environment();
  Arguments words = arguments;
  const auto plan = take_plan_request(words);
  const config::Config config =
      config::Config::load({.flags = words, .fewest_ranks = true});
  const Logger logger = command_logger(here);
  check_generate_flags(
      config,
      logger,
      plan ? Checkpoint::any : Checkpoint::named);
  if (plan) {
    print_generation_plan(config, *plan, here);
    return exit_ok;
  }
  check_ranks(config, here.world_size, logger);
  if (here.rank > 0) {
    share_model(config, join_text_job(config)).follow();
    return exit_ok;
  }
  const config::GenerationFlags& flags = config.flags.generation;
  if (here.world_size > 1 && is_conversation(flags)) {
    refuse_conversation();
  }
  std::vector<PromptLine> lines;
  if (flags.sample_input_file) {
    lines = read_prompt_lines(*flags.sample_input_file);
  }
  std::optional<TextGenerator::Tokens> prompt_ids;
  if (flags.prompt_ids) {
    prompt_ids = parse_prompt_ids(*flags.prompt_ids);
  }
  std::optional<GeneratedFile> file;
  if (const auto output = output_of(flags)) {
    file.emplace(
        *output,
        flags.return_log_probs || flags.top_n_logprobs > 0 ? LogProbs::yes
                                                           : LogProbs::no);
  }
  const distributed::World world = join_text_job(config);
  if (prompt_ids) {
    continue_ids(config, world, *prompt_ids, file ? &*file : nullptr);
    return exit_ok;
  }
  TextGenerator generator = load_generator(config, world);
  const auto at_once = static_cast<std::size_t>(texts_at_once(config));
  if (flags.sample_input_file) {
    continue_lines(generator, *flags.sample_input_file, lines, at_once, *file);
  } else if (flags.num_samples > 0) {
    make_samples(
        generator,
        static_cast<std::size_t>(flags.num_samples),
        at_once,
        file ? &*file : nullptr);
  } else {
    converse(generator, logger);
  }
  return exit_ok;
}

} // namespace cairn::cli
