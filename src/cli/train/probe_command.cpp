// `cairn probe`: compares Cairn with another framework.

#include "base/internal/edit_distance.h"
#include "cli/program/command.h"
#include "cli/train/join_job.h"
#include "config/internal/flag.h"
#include "pretrain/internal/probe.h"

#include <cairn/base/error.h>
#include <cairn/base/log.h>
#include <cairn/distributed/environment.h>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

constexpr std::string_view probe_help =
    R"(Usage: cairn probe [FLAGS…] --load DIR --input FILE --output FILE
       cairn launch --num_gpus N probe [FLAGS…] --load DIR …

Runs a given batch through the model of a checkpoint, of any format, and
writes logits, loss and the norm of every parameter's gradient to a safetensors
file, to be compared with another program's. Nothing is dropped out. An encoder
without a head that predicts words gives its last hidden state instead.

Flags:
  --load DIR           the checkpoint
  --ckpt-step INT      of its several; else the newest
  --input FILE         safetensors with input_ids, labels and what else the
                       model takes, named as Hugging Face's models name their
                       arguments; results of another program in the same file
                       are compared with ours
  --output FILE        safetensors
  --no-logits          leave them out: they are as large as rows x tokens x
                       vocabulary
  --config FILE        DeepSpeed's JSON: precision and ZeRO stage
  --train              trains, an update for every batch along a first dimension
                       for steps, with optimizer, schedule and batch size of the
                       JSON, and writes losses, rates and norms of every step
  --tensor-model-parallel-size, --pipeline-model-parallel-size,
  --sequence-parallel, --zero-stage, --bf16, --fp16, and with --train
  --optimizer, --lr, --lr-decay-style, …
                       Megatron's flags, as in `cairn pretrain`

Example:
  cairn probe --load gpt2 --input batch.safetensors --output out.safetensors
)";

/// The command's own flags; the others are Megatron's.
class OwnFlags {
 public:
  explicit OwnFlags(const Arguments& arguments) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const std::string& word = arguments[i];
      std::string name = word.substr(0, word.find('='));
      std::ranges::replace(name, '_', '-');
      const auto known = std::ranges::find(takes_value, name, &Known::first);
      if (known == takes_value.end()) {
        rest_.push_back(word);
        continue;
      }
      std::string value;
      if (word.size() > name.size()) {
        if (!known->second) {
          throw ConfigError({.what = "takes no value", .where = name});
        }
        value = word.substr(name.size() + 1);
      } else if (known->second) {
        if (i + 1 == arguments.size() || arguments[i + 1].starts_with("--")) {
          throw ConfigError({.what = "has no value", .where = name});
        }
        value = arguments[++i];
      }
      if (!values_.emplace(name, value).second) {
        throw ConfigError({.what = "is given twice", .where = name});
      }
    }
  }

  /// Refuses a flag that neither we nor Megatron have.
  void refuse_unknown() const {
    for (const std::string& word : rest_) {
      const std::string name = word.substr(0, word.find('='));
      if (!name.starts_with("--") || config::find_flag(name) != nullptr ||
          config::find_refused_flag(name) != nullptr) {
        continue;
      }
      std::vector<std::string_view> names = config::flag_names();
      names.insert(names.begin(), "--help");
      for (const Known& own : takes_value) {
        names.insert(names.begin(), own.first);
      }
      const auto close = nearest(name, names);
      throw ConfigError(
          {.what = "unknown flag",
           .where = name,
           .remedy = close ? fmt::format("did you mean {}?", *close)
                           : "see `cairn probe --help`"});
    }
  }

  bool has(const std::string& name) const { return values_.contains(name); }
  std::optional<std::string> find(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  std::string required(const std::string& name) const {
    const auto value = find(name);
    if (!value || value->empty()) {
      throw ConfigError(
          {.what = "is required",
           .where = name,
           .remedy = "see `cairn probe --help`"});
    }
    return *value;
  }
  const Arguments& rest() const { return rest_; }

 private:
  using Known = std::pair<std::string_view, bool>;
  static constexpr std::array<Known, 7> takes_value{
      {{"--load", true},
       {"--ckpt-step", true},
       {"--input", true},
       {"--output", true},
       {"--config", true},
       {"--train", false},
       {"--no-logits", false}}};

  std::map<std::string, std::string> values_;
  Arguments rest_;
};

std::optional<std::int64_t> step_of(const std::optional<std::string>& text) {
  if (!text) {
    return std::nullopt;
  }
  std::int64_t step = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, step);
  if (error != std::errc() || stop != end || step < 0) {
    throw ConfigError(
        {.what = fmt::format("\"{}\" is not the number of a step", *text),
         .where = "--ckpt-step"});
  }
  return step;
}

pretrain::ProbeOptions options_of(
    const OwnFlags& flags,
    const distributed::Environment& environment) {
  pretrain::ProbeOptions options{
      .load = flags.required("--load"),
      .step = step_of(flags.find("--ckpt-step")),
      .input = flags.required("--input"),
      .output = flags.required("--output")};
  options.train = flags.has("--train");
  options.logits = !flags.has("--no-logits");
  options.config.file = flags.find("--config");
  options.config.flags = flags.rest();
  options.config.world_size = environment.world_size;
  options.writes = environment.rank == 0;
  return options;
}

/// Prints one line for all names that are equal up to the dot: "grad_norms".
void print_differences(
    const std::vector<pretrain::ProbeDifference>& differences) {
  struct Worst {
    pretrain::ProbeDifference difference;
    int count = 0;
  };
  std::map<std::string, Worst> kinds;
  for (const auto& each : differences) {
    Worst& worst = kinds[each.name.substr(0, each.name.find('.'))];
    if (worst.count++ == 0 || !(each.largest <= worst.difference.largest)) {
      worst.difference = each;
    }
  }
  for (const auto& [name, worst] : kinds) {
    fmt::print(
        "{:<24} at most {:.2g} from the input's, {:.2g} of the largest{}\n",
        name,
        worst.difference.largest,
        worst.difference.relative,
        worst.count == 1 ? ""
                         : fmt::format(
                               " ({})",
                               worst.difference.name.substr(
                                   worst.difference.name.find('.') + 1)));
  }
}

void print_report(
    const pretrain::ProbeReport& report,
    const pretrain::ProbeOptions& options,
    int ranks) {
  fmt::print(
      "{} of {} ({}), {} parameters, {} rank{}\n",
      report.model,
      options.load.string(),
      report.format,
      report.parameters,
      ranks,
      ranks == 1 ? "" : "s");
  if (options.train) {
    fmt::print(
        "{:>5} {:>12} {:>12} {:>12}\n",
        "step",
        "lr",
        "loss",
        "grad_norm");
    for (std::size_t i = 0; i < report.steps.size(); ++i) {
      const pretrain::ProbeStep& step = report.steps[i];
      fmt::print(
          "{:>5} {:>12.6g} {:>12.7g} {:>12.6g}\n",
          i,
          step.learning_rates.front(),
          step.loss,
          step.gradient_norm);
    }
  } else if (!report.steps.empty()) {
    const pretrain::ProbeStep& step = report.steps.front();
    fmt::print("{:<24} {:.7g}\n", "loss", step.loss);
    fmt::print("{:<24} {:.7g}\n", "total_grad_norm", step.gradient_norm);
  }
  print_differences(report.differences);
  fmt::print("wrote {}, {} tensors\n", options.output.string(), report.tensors);
}

} // namespace

int run_probe(const Arguments& arguments) {
  const auto asks_for_help = [](const std::string& word) {
    return word == "--help" || word == "-h";
  };
  if (arguments.empty() || std::ranges::any_of(arguments, asks_for_help)) {
    fmt::print("{}", probe_help);
    return exit_ok;
  }
  const OwnFlags flags(arguments);
  flags.refuse_unknown();
  const pretrain::ProbeOptions options =
      options_of(flags, distributed::read_environment());
  const pretrain::Probe probe(options);
  return run_in_job(
      probe.config().flags.distributed,
      [&](const distributed::World& world) {
        const Logger logger(
            {.rank = world.rank(),
             .world_size = world.size(),
             .least = LogLevel::warning});
        const pretrain::ProbeReport report = probe.run(world, logger);
        if (world.rank() == 0) {
          print_report(report, options, world.size());
        }
        return exit_ok;
      });
}

} // namespace cairn::cli
