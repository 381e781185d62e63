#include "pretrain/model/read_stored.h"

#include "pretrain/internal/megatron_reading.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

namespace cairn::pretrain {

using checkpoints::CheckpointFormat;

std::optional<CheckpointFormat> stored_format(
    const config::CheckpointFlags& flags) {
  if (!flags.load) {
    return std::nullopt;
  }
  try {
    return checkpoints::detect_checkpoint_format(*flags.load);
  } catch (const CheckpointError&) { // no checkpoint yet
    return std::nullopt;
  }
}

checkpoints::Portable read_stored(
    CheckpointFormat format,
    const config::Flags& flags) {
  checkpoints::ConvertOptions options{
      .input = flags.checkpointing.load.value(),
      .megatron = megatron_reading(flags.model)};
  options.weights_only = true;
  if (const auto step = flags.checkpointing.ckpt_step) {
    if (format == CheckpointFormat::megatron) {
      options.iteration = step;
    } else {
      options.tag = fmt::format("global_step{}", *step);
    }
  }
  return checkpoints::read_portable(format, options);
}

} // namespace cairn::pretrain
