#include "cli/evaluate/run_finetuning.h"

#include "cli/train/join_job.h"
#include "config/internal/reference.h"
#include "evaluate/internal/finetune.h"
#include "version.h"

#include <cairn/base/file.h>
#include <cairn/base/log.h>
#include <cairn/distributed/environment.h>

#include <fmt/core.h>
#include <torch/version.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>

namespace cairn::cli {
namespace {

/// Gives a fine-tuning that keeps checkpoints a log beside them. An empty name
/// turns the log off.
void set_finetuning_log(config::Config& config) {
  config::LoggingFlags& logging = config.flags.logging;
  const auto& save = config.flags.checkpointing.save;
  const bool trains = config.flags.validation.epochs.value_or(0) > 0;
  if (!logging.jsonl && save && trains) {
    logging.jsonl = (std::filesystem::path(*save) / "log.jsonl").string();
    if (!logging.tensorboard_dir &&
        !config.given.contains("--tensorboard-log-interval")) {
      logging.tensorboard_log_interval = logging.log_interval;
    }
  } else if (logging.jsonl && logging.jsonl->empty()) {
    logging.jsonl.reset();
  }
}

bool is_keep_last(std::string word) {
  std::ranges::replace(word, '_', '-');
  return word == "--keep-last";
}

} // namespace

void print_finetuning_help() {
  fmt::print(
      "Usage: cairn evaluate --task TASK --train-data PATH… --valid-data PATH… "
      "\\\n"
      "           --pretrained-checkpoint DIR --epochs N [FLAGS…]\n"
      "       cairn launch --num_gpus N evaluate --task TASK …\n\n"
      "Fine-tunes a BERT, from a checkpoint of any format, on a task's files "
      "as they are\npublished, and evaluates it after every epoch:\n\n"
      "  RACE                       folders of articles with questions and "
      "four options\n"
      "  MNLI QNLI RTE              does a text follow from another? (.tsv "
      "of GLUE)\n"
      "  QQP MRPC STS-B             do two texts mean the same?\n"
      "  SST-2 CoLA                 is a sentence positive, is it "
      "grammatical?\n\n"
      "With --epochs 0 and --load it evaluates a model that is fine-tuned "
      "already.\n\n"
      "Example:\n"
      "  cairn launch --num_gpus 8 evaluate --task MNLI --epochs 3 \\\n"
      "      --train-data MNLI/train.tsv --valid-data MNLI/dev_matched.tsv \\\n"
      "      --pretrained-checkpoint bert-base-uncased --micro-batch-size 16 "
      "\\\n"
      "      --lr 5e-5 --lr-warmup-fraction 0.065 --seq-length 128 --bf16 "
      "\\\n"
      "      --save mnli --load mnli --output mnli.json\n\n"
      "  --keep-last\n"
      "    trains on the last batch of an epoch too, though it is smaller\n"
      "    (with a number it is the flag below)\n\n{}",
      config::flags_text(config::Actor::finetune));
}

bool take_keep_last(Arguments& arguments) {
  const auto found = std::ranges::find_if(arguments, is_keep_last);
  if (found == arguments.end()) {
    return false;
  }
  const auto next = found + 1;
  if (next != arguments.end() && !next->starts_with("--")) {
    return false;
  }
  arguments.erase(found);
  return true;
}

int run_finetuning(config::Config config, bool keep_last_batch) {
  set_finetuning_log(config);
  const auto& output = config.flags.validation.output;
  if (output && distributed::read_environment().rank == 0) {
    const AtomicFile trial(*output); // before hours of work
  }
  return run_in_job(
      config.flags.distributed,
      [&](const distributed::World& world) {
        const Logger logger({.rank = world.rank(), .world_size = world.size()});
        const evaluate::FinetuneReport report = evaluate::finetune(
            {.config = config,
             .keep_last_batch = keep_last_batch,
             .versions =
                 {{"Cairn", std::string(version)},
                  {"libtorch", TORCH_VERSION}}},
            world,
            logger);
        if (output && world.rank() == 0) {
          write_file_atomically(*output, evaluate::to_json(report) + "\n");
        }
        return exit_ok;
      });
}

} // namespace cairn::cli
