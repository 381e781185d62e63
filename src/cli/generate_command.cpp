// `cairn generate`: Megatron's tools/generate_samples_gpt.py, with its flags.

#include "base/utf8.h"
#include "cli/command.h"
#include "cli/generate_flags.h"
#include "cli/generated_file.h"
#include "cli/join_job.h"
#include "cli/load_generator.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/base/log.h>
#include <cairn/base/progress.h>
#include <cairn/config/config.h>
#include <cairn/config/reference.h>
#include <cairn/distributed/environment.h>

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <sstream>
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

void print_help() {
  fmt::print(
      "Usage: cairn generate --load DIR [FLAGS…]\n\n"
      "Goes on with texts, or begins some, with a GPT or Llama from a "
      "checkpoint of\nany format. Three ways:\n\n"
      "  --num-samples N          texts from nothing, to --genfile or the "
      "screen\n"
      "  --sample-input-file F    a continuation of every line of a file\n"
      "  neither                  asks for prompts, until Ctrl-D or "
      "\"stop\"\n\n"
      "The files hold a JSON object per line. The checkpoint says what its "
      "model is;\nif the flags say so too, they must agree. Flags about "
      "training are taken as well,\nso that those of `cairn pretrain` may "
      "stay, and change nothing.\n\n"
      "Examples:\n"
      "  cairn generate --load checkpoints --tokenizer-model tokenizer.json "
      "\\\n      --num-samples 2 --top_p 0.9 --genfile samples.json\n"
      "  cairn generate --load gpt2-hf\n\n{}",
      config::flags_text(generate_acts_on));
}

/// For the eye: what could steer a terminal is left out.
std::string shown(std::string_view text) {
  std::string kept = well_formed_utf8(text);
  std::erase_if(kept, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
  });
  return kept;
}

void print_text(std::string_view text) {
  fmt::print(
      "{}",
      ::isatty(STDOUT_FILENO) == 1 ? shown(text) : well_formed_utf8(text));
  std::fflush(stdout);
}

/// Prints a text as it grows. A character of several tokens waits for the last
/// of them.
class Typist {
 public:
  void grow(std::string text) {
    text_ = std::move(text);
    print_up_to(unfinished_utf8(text_));
  }
  void finish() {
    print_up_to(text_.size());
    fmt::print("\n");
  }

 private:
  void print_up_to(std::size_t end) {
    if (end <= printed_) {
      return;
    }
    print_text(std::string_view(text_).substr(printed_, end - printed_));
    printed_ = end;
  }

  std::string text_;
  std::size_t printed_ = 0;
};

/// Makes `count` texts, so many at a time, and shows how far it is.
void make_texts(
    TextGenerator& generator,
    std::size_t count,
    std::size_t at_once,
    const std::function<TextGenerator::Tokens(std::size_t)>& prompt,
    const std::function<void(std::size_t, const GeneratedText&)>& take) {
  Progress bar(
      {.label = "generating",
       .total = count,
       .unit = "texts",
       .second_unit = "tokens"});
  for (std::size_t done = 0; done < count;) {
    std::vector<TextGenerator::Tokens> prompts;
    while (prompts.size() < at_once && done + prompts.size() < count) {
      prompts.push_back(prompt(done + prompts.size()));
    }
    const auto texts = generator.after(prompts, [&](std::size_t, const auto&) {
      bar.advance(0, 1);
    });
    for (const GeneratedText& text : texts) {
      take(done++, text);
      bar.advance();
    }
  }
  bar.done();
}

void make_samples(
    TextGenerator& generator,
    const config::GenerationFlags& flags,
    std::size_t at_once,
    std::optional<GeneratedFile> file) {
  const auto nothing = generator.no_prompt();
  if (file) {
    file->clear();
  }
  make_texts(
      generator,
      static_cast<std::size_t>(flags.num_samples),
      at_once,
      [&](std::size_t) { return nothing; },
      [&](std::size_t number, const GeneratedText& text) {
        if (file) {
          file->add(text);
        } else {
          fmt::print("{}", number == 0 ? "" : "\n---\n");
          print_text(text.text);
          fmt::print("\n");
        }
      });
}

struct Line {
  std::size_t number;
  std::string text;
};

/// Those that are not empty.
std::vector<Line> lines_of(const std::string& path) {
  constexpr std::uint64_t most = std::uint64_t{1} << 30;
  std::istringstream text(read_file(path, most));
  std::vector<Line> lines;
  std::size_t number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    if (line.ends_with('\r')) {
      line.pop_back();
    }
    if (!line.empty()) {
      lines.push_back({number, line});
    }
  }
  if (lines.empty()) {
    throw DataError({.what = "no line holds a prompt", .where = path});
  }
  return lines;
}

/// Throws DataError for a prompt that nothing can follow.
TextGenerator::Tokens prompt_tokens(
    const TextGenerator& generator,
    const std::string& text,
    const std::string& where) {
  TextGenerator::Tokens prompt = generator.prompt(text);
  if (prompt.empty()) {
    throw DataError(
        {.what = "the tokenizer makes no token of the prompt", .where = where});
  }
  if (static_cast<std::int64_t>(prompt.size()) >= generator.longest()) {
    throw DataError(
        {.what = "the prompt leaves no room for a continuation",
         .where = where,
         .values = fmt::format(
             "{} tokens, and a text has at most {}",
             prompt.size(),
             generator.longest()),
         .remedy = "shorten it"});
  }
  return prompt;
}

void continue_lines(
    TextGenerator& generator,
    const std::string& input,
    const std::vector<Line>& lines,
    std::size_t at_once,
    GeneratedFile file) {
  const auto prompt = [&](std::size_t i) {
    return prompt_tokens(
        generator,
        lines[i].text,
        fmt::format("{}:{}", input, lines[i].number));
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    prompt(i); // all of them can be continued
  }
  file.clear();
  make_texts(
      generator,
      lines.size(),
      at_once,
      prompt,
      [&](std::size_t i, const GeneratedText& text) {
        file.add(text, lines[i].text);
      });
}

void converse(TextGenerator& generator, const Logger& logger) {
  const bool person = ::isatty(STDIN_FILENO) == 1;
  if (person) {
    fmt::print("A prompt per line; \"stop\" or Ctrl-D ends.\n");
  }
  for (std::string line;;) {
    if (person) {
      fmt::print("\nprompt> ");
      std::fflush(stdout);
    }
    if (!std::getline(std::cin, line) || line == "stop") {
      break;
    }
    if (line.empty()) {
      continue;
    }
    TextGenerator::Tokens prompt;
    try {
      prompt = prompt_tokens(generator, line, "");
    } catch (const DataError& error) {
      if (!person) {
        throw;
      }
      logger.error("{}", error.what());
      continue;
    }
    print_text(line);
    Typist typist;
    generator.after(
        {prompt},
        [&](std::size_t, const TextGenerator::Tokens& so_far) {
          typist.grow(generator.decode(prompt, so_far));
        });
    typist.finish();
  }
  if (person) {
    fmt::print("\n");
  }
}

std::optional<GeneratedFile> output_of(const config::GenerationFlags& flags) {
  if (!flags.sample_input_file) {
    return flags.genfile ? std::optional<GeneratedFile>(*flags.genfile)
                         : std::nullopt;
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
  return std::optional<GeneratedFile>(output);
}

} // namespace

int run_generate(const Arguments& arguments) {
  const auto asks_for_help = [](const std::string& word) {
    return word == "--help" || word == "-h";
  };
  if (arguments.empty() || std::ranges::any_of(arguments, asks_for_help)) {
    print_help();
    return exit_ok;
  }
  const int ranks = distributed::read_environment().world_size;
  if (ranks > 1) {
    throw ConfigError(
        {.what = "text is generated by one rank",
         .values = fmt::format("{} ranks", ranks),
         .remedy = "run `cairn generate` without the launcher; it loads what "
                   "any number of ranks saved"});
  }
  const config::Config config = config::Config::load({.flags = arguments});
  const Logger logger;
  check_generate_flags(config, logger);
  const config::GenerationFlags& flags = config.flags.generation;
  std::vector<Line> lines;
  if (flags.sample_input_file) {
    lines = lines_of(*flags.sample_input_file);
  }
  std::optional<GeneratedFile> file = output_of(flags);
  const distributed::World world = join_job(config.flags.distributed);
  TextGenerator generator = load_generator(config, world);
  const auto at_once = static_cast<std::size_t>(
      config.deepspeed.batch ? config.deepspeed.batch->micro : 8);
  if (flags.sample_input_file) {
    continue_lines(
        generator,
        *flags.sample_input_file,
        lines,
        at_once,
        std::move(*file));
  } else if (flags.num_samples > 0) {
    make_samples(generator, flags, at_once, std::move(file));
  } else {
    converse(generator, logger);
  }
  return exit_ok;
}

} // namespace cairn::cli
