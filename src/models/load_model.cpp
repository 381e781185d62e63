#include <cairn/models/load_model.h>

#include "checkpoints/internal/portable_checkpoint.h"
#include "models/internal/load_weights.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <utility>

namespace cairn::models {

StoredModel open_model(
    const std::filesystem::path& checkpoint,
    std::optional<std::int64_t> step,
    const checkpoints::MegatronReadOptions& megatron) {
  using checkpoints::CheckpointFormat;
  const CheckpointFormat format =
      checkpoints::detect_checkpoint_format(checkpoint);
  checkpoints::ConvertOptions options{
      .input = checkpoint,
      .megatron = megatron};
  options.weights_only = true;
  if (step && format == CheckpointFormat::megatron) {
    options.iteration = step;
  } else if (step) {
    options.tag = fmt::format("global_step{}", *step);
  }
  checkpoints::Portable portable = checkpoints::read_portable(format, options);
  if (!portable.description) {
    throw CheckpointError(
        {.what = "a checkpoint that does not say what its model is",
         .where = checkpoint.string(),
         .remedy = "save it with `cairn pretrain`, or pass .description to "
                   "cairn::initialize()"});
  }
  return {
      format,
      std::move(*portable.description),
      std::move(portable.parameters)};
}

std::shared_ptr<Transformer> load_model(
    const StoredModel& stored,
    ModelOptions options) {
  options.seed.reset(); // all weights are loaded
  auto model = make_model(stored.description, options);
  load_weights(*model, stored.description, stored.tensors);
  return model;
}

std::shared_ptr<Transformer> load_model(
    const std::filesystem::path& checkpoint,
    ModelOptions options) {
  return load_model(open_model(checkpoint), std::move(options));
}

} // namespace cairn::models
