// `cairn pretrain gpt|bert|t5`: Megatron's flags and DeepSpeed's JSON together.

#include "base/internal/cpu.h"
#include "base/internal/edit_distance.h"
#include "base/internal/freed_memory.h"
#include "checkpoints/internal/checkpoint_folder.h"
#include "cli/program/command.h"
#include "cli/program/cuda_report.h"
#include "cli/train/join_job.h"
#include "config/internal/reference.h"
#include "pretrain/internal/checkpoint_args.h"
#include "pretrain/internal/planned_settings.h"
#include "pretrain/internal/pretrain.h"
#include "report/internal/report.h"
#include "version.h"

#include <cairn/base/error.h>
#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/environment.h>
#include <cairn/plan/cluster.h>

#include <fmt/core.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

using pretrain::Kind;
using Versions = std::vector<std::pair<std::string, std::string>>;

constexpr std::array kinds{Kind::gpt, Kind::bert, Kind::t5};

void print_pretrain_help() {
  fmt::print(
      "Usage: cairn pretrain gpt|bert|t5 [FLAGS…]\n"
      "       cairn launch --num_gpus N pretrain gpt [FLAGS…]\n\n"
      "Trains a model on data that `cairn preprocess` made, by Megatron's\n"
      "flags and DeepSpeed's JSON (--deepspeed_config FILE) together.\n\n"
      "  cairn launch --num_gpus 2 pretrain gpt --num-layers 6\n"
      "    --hidden-size 384 --num-attention-heads 6 --seq-length 256\n"
      "    --micro-batch-size 4 --global-batch-size 16 --train-iters 500\n"
      "    --lr 6e-4 --data-path corpus_text_document\n"
      "    --tokenizer-model tokenizer.json --save checkpoints\n"
      "    --load checkpoints --zero-stage 1\n\n"
      "  --dry-run[=RANKS]\n"
      "    checks everything but the data, says what would be trained, and\n"
      "    ends; for as many ranks as there are, or so many\n"
      "  --use-checkpoint-args\n"
      "    takes the model, its tokenizer and the length of samples from the\n"
      "    checkpoint that --load names, and says what it took. With\n"
      "    --use-mp-args-from-checkpoint-args also the degrees of "
      "parallelism,\n"
      "    with --no-use-tokenizer-model-from-checkpoint-args not the "
      "tokenizer\n"
      "\n{}",
      config::flags_text(config::Actor::pretrain));
}

Kind kind_named(std::string_view name) {
  if (const auto kind = model::model_kind_named(name)) {
    return *kind;
  }
  std::vector<std::string_view> names;
  for (const Kind kind : kinds) {
    names.push_back(name_of(kind));
  }
  const auto closest = nearest(name, names);
  throw ConfigError(
      {.what = fmt::format("pretrain knows no model \"{}\"", name),
       .remedy = closest ? fmt::format("did you mean \"{}\"?", *closest)
                         : std::string("choose gpt, bert or t5")});
}

/// Takes --dry-run out of the flags. Returns its number of ranks, if it was
/// there.
std::optional<std::int64_t> take_dry_run(Arguments& flags, int ranks_here) {
  constexpr std::string_view name = "--dry-run";
  std::optional<std::int64_t> ranks;
  std::erase_if(flags, [&](const std::string& word) {
    std::string spelled = word.substr(0, word.find('='));
    std::ranges::replace(spelled, '_', '-');
    if (spelled != name) {
      return false;
    }
    ranks = ranks_here;
    if (word.size() > name.size()) {
      const char* const end = word.data() + word.size();
      std::int64_t number = 0;
      const auto [stop, error] =
          std::from_chars(word.data() + name.size() + 1, end, number);
      if (error != std::errc() || stop != end || number < 1) {
        throw ConfigError(
            {.what = fmt::format(
                 "\"{}\" is no number of ranks",
                 word.substr(name.size() + 1)),
             .where = std::string(name)});
      }
      ranks = number;
    }
    return true;
  });
  return ranks;
}

/// The versions that a bug report would ask for.
Versions versions_of(const distributed::World& world) {
  Versions versions{
      {"Cairn", std::string(version)},
      {"libtorch", TORCH_VERSION},
      {"compiler", fmt::format("{}, {}", compiler, build_type)},
      {"CPU", CpuInfo::detect().model}};
  if (world.device_name().starts_with("cuda")) {
    const CudaReport cuda = cuda_report();
    versions.insert(
        versions.end(),
        {{"CUDA", cuda.cuda_version},
         {"cuDNN", cuda.cudnn_version},
         {"NCCL", cuda.nccl_version}});
    for (std::size_t i = 0; i < cuda.devices.size(); ++i) {
      versions.emplace_back(fmt::format("GPU {}", i), cuda.devices[i]);
    }
  }
  return versions;
}

/// The machine that this rank is on, for the planner.
std::optional<plan::Cluster> machine_of(
    const distributed::Environment& environment) {
  const CudaReport cuda = cuda_report();
  return cuda.devices.empty() ? plan::cpu_machine(environment.local_world_size)
                              : plan::gpu_machine_here(cuda.devices.front());
}

/// Gives a training that keeps checkpoints a log beside them, with a line
/// whenever the terminal gets one. An empty name turns the log off.
void set_log_file(config::Config& config) {
  config::LoggingFlags& logging = config.flags.logging;
  const auto& save = config.flags.checkpointing.save;
  if (!logging.jsonl && save && !config.flags.validation.skip_train) {
    logging.jsonl = (std::filesystem::path(*save) / "log.jsonl").string();
    const bool others = logging.tensorboard_dir ||
        config.deepspeed.tensorboard.enabled ||
        config.deepspeed.csv_monitor.enabled;
    if (!others && !config.given.contains("--tensorboard-log-interval")) {
      logging.tensorboard_log_interval = logging.log_interval;
    }
  } else if (logging.jsonl && logging.jsonl->empty()) {
    logging.jsonl.reset();
  }
}

/// Writes a page of the run beside its log. A failure is only a warning.
void write_page(const std::string& log, const Logger& logger) {
  try {
    const auto written =
        report::write_report({log}, report::default_page({log}));
    logger.info("the run as a page: {}", written.page.string());
  } catch (const Error& error) {
    logger.warning("no page of the run: {}", error.what());
  }
}

bool uses_disk(const config::ZeroConfig& zero) {
  const auto is_disk = [](const auto& offload) {
    return offload && offload->device == config::OffloadDevice::nvme;
  };
  return is_disk(zero.offload_optimizer) || is_disk(zero.offload_param);
}

/// Keeps other trainings out of the folder where this one saves and logs, from
/// before it writes the first line there.
std::optional<checkpoints::WriterLock> lock_of(
    const config::Config& config,
    const distributed::World& world) {
  const auto& save = config.flags.checkpointing.save;
  if (!save || config.flags.validation.skip_train || world.rank() != 0) {
    return std::nullopt;
  }
  std::error_code error;
  std::filesystem::create_directories(*save, error);
  if (error) {
    throw CheckpointError(
        {.what = "the folder cannot be made",
         .where = *save,
         .values = error.message(),
         .remedy = "give another one with --save"});
  }
  return std::optional<checkpoints::WriterLock>(
      std::in_place,
      *save,
      ".training.lock");
}

int train(
    Kind kind,
    const pretrain::PlannedConfig& planned,
    const distributed::World& world) {
  const config::Config& config = planned.config;
  const auto lock = lock_of(config, world);
  const Logger logger({.rank = world.rank(), .world_size = world.size()});
  if (world.rank() == 0) {
    for (const std::string& answer : planned.answers) {
      logger.info("{}", answer);
    }
  }
  const bool logs =
      world.rank() == pretrain::log_rank(config.flags.logging, world.size());
  const pretrain::Outcome outcome = pretrain::run(
      kind,
      config,
      world,
      logger,
      logs ? versions_of(world) : Versions{});
  if (world.rank() == 0) {
    logger.info(
        "{}, after iteration {}",
        pretrain::words_for(outcome.ended),
        outcome.iteration);
  }
  if (const auto& log = config.flags.logging.jsonl; log && logs) {
    write_page(*log, logger);
  }
  return exit_ok;
}

} // namespace

int run_pretrain(const Arguments& arguments) {
  const auto asks_for_help = [](const std::string& word) {
    return word == "--help" || word == "-h";
  };
  if (arguments.empty() || std::ranges::any_of(arguments, asks_for_help)) {
    print_pretrain_help();
    return exit_ok;
  }
  const Kind kind = kind_named(arguments.front());
  Arguments flags(arguments.begin() + 1, arguments.end());
  const distributed::Environment here = distributed::read_environment();
  const auto dry = take_dry_run(flags, here.world_size);
  const pretrain::CheckpointArgs args =
      pretrain::with_checkpoint_args(kind, std::move(flags));
  const Logger early({.rank = here.rank, .world_size = here.world_size});
  for (const std::string& line : args.lines) {
    early.info("{}", line); // said also where the flags do not suffice
  }
  pretrain::PlannedConfig planned = pretrain::load_planned(
      kind,
      {.flags = args.words, .world_size = dry.value_or(here.world_size)},
      [&] { return machine_of(here); });
  config::Config& config = planned.config;
  if (uses_disk(config.deepspeed.zero)) { // so memory is short
    return_freed_memory();
  } else {
    keep_freed_memory();
  }
  set_log_file(config);
  if (dry) {
    const std::string plan = pretrain::dry_run(kind, config);
    if (here.rank == 0) {
      for (const std::string& answer : planned.answers) {
        fmt::print("planner:    {}\n", answer);
      }
      fmt::print("{}", plan);
    }
    return exit_ok;
  }
  return run_in_job(
      config.flags.distributed,
      [&](const distributed::World& world) {
        return train(kind, planned, world);
      });
}

} // namespace cairn::cli
