#include <cairn/models/load_model.h>

#include "checkpoint/convert/portable.h"

#include <cairn/base/error.h>
#include <cairn/models/load_weights.h>

namespace cairn::models {

std::shared_ptr<Transformer> load_model(
    const std::filesystem::path& checkpoint,
    ModelOptions options) {
  const checkpoints::Portable portable = checkpoints::read_portable(
      checkpoints::detect_checkpoint_format(checkpoint),
      {.input = checkpoint, .weights_only = true});
  if (!portable.description) {
    throw CheckpointError(
        {.what = "a checkpoint that does not say what its model is",
         .where = checkpoint.string(),
         .remedy = "save it with `cairn pretrain`, or pass .description to "
                   "cairn::initialize()"});
  }
  options.seed.reset(); // all weights are loaded
  auto model = make_model(*portable.description, options);
  load_weights(*model, *portable.description, portable.parameters);
  return model;
}

} // namespace cairn::models
