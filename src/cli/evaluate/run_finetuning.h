#pragma once

#include "cli/program/command.h"

#include <cairn/config/config.h>

namespace cairn::cli {

void print_finetuning_help();

/// Takes Megatron's --keep-last, which has no value, out of the arguments.
/// Returns true if it was there. (With a number it is the flag that keeps so
/// many checkpoints.)
bool take_keep_last(Arguments& arguments);

/// `cairn evaluate` with a task that BERT is fine-tuned for.
int run_finetuning(config::Config config, bool keep_last_batch);

} // namespace cairn::cli
