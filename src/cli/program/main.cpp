#include "cli/program/command.h"

namespace cairn::cli {
namespace {

constexpr Command commands[] = {
    {"launch",
     "run a program on many ranks, here or on many hosts",
     run_launch},
    {"config", "check, explain and document the configuration", run_config},
    {"data", "make, check and look at training data", run_data},
    {"train-tokenizer",
     "learn a byte-level BPE vocabulary from text",
     run_train_tokenizer},
    {"tokenize", "turn text into token ids and back", run_tokenize},
    {"preprocess", "turn texts into token files", run_preprocess},
    {"schedule", "what the stages of a pipeline do when", run_schedule},
    {"plan", "what a run will need, and the best layout", run_plan},
    {"memory", "how much memory each rank of a run needs", run_memory},
    {"tune", "try out what trains fastest on this machine", run_tune},
    {"quickstart", "from nothing to a trained model", nullptr},
    {"pretrain", "train GPT, BERT or T5", nullptr},
    {"evaluate", "measure how well a trained model does a task", nullptr},
    {"generate", "let a trained model write", nullptr},
    {"serve", "let others ask a trained model over HTTP", nullptr},
    {"chat", "talk to a server", run_chat},
    {"report", "draw what runs have logged, as a page", run_report},
    {"probe", "run given batches through a checkpoint, to compare", nullptr},
    {"checkpoint", "list, inspect, verify and compare checkpoints", nullptr},
    {"convert", "turn a checkpoint into another format", nullptr},
    {"merge-mp-partitions",
     "cut a checkpoint of Megatron's for other ranks",
     nullptr},
    {"info", "versions, devices and what is built in", nullptr},
};

} // namespace

std::span<const Command> all_commands() {
  return commands;
}

} // namespace cairn::cli

int main(int argc, char** argv) {
  return cairn::cli::run_program(cairn::cli::all_commands(), argc, argv);
}
