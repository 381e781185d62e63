// `cairn checkpoint`: looks at checkpoints of any format.

#include "cli/checkpoint/checkpoint_command.h"

#include "checkpoints/internal/safetensors_header.h"
#include "cli/program/subcommands.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace cairn::cli {

void print_json(const checkpoints::Facts& value) {
  fmt::print(
      "{}\n",
      value.dump(2, ' ', false, checkpoints::Facts::error_handler_t::replace));
}

std::string shown_shape(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string shown_type(at::ScalarType type) {
  try {
    return std::string(checkpoints::safetensors_name(type));
  } catch (const CheckpointError&) {
    return c10::toString(type);
  }
}

int run_checkpoint(const Arguments& arguments) {
  static const std::vector<Command> members{
      {"diff", "where two checkpoints differ", run_checkpoint_diff},
      {"inspect",
       "what is in a checkpoint: tensors, norms, state",
       run_checkpoint_inspect},
      {"list",
       "the checkpoints of a run, and which one loads",
       run_checkpoint_list},
      {"verify", "read all of it and check it", run_checkpoint_verify},
  };
  return run_subcommand("checkpoint", members, arguments);
}

} // namespace cairn::cli
