#include "config/internal/virtual_stages.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

namespace cairn::config {

int virtual_stages(const DistributedFlags& flags, std::int64_t blocks) {
  if (!flags.has_virtual_stages()) {
    return 1;
  }
  const std::int64_t stages = flags.pipeline_parallel;
  const std::int64_t each = flags.layers_per_virtual_stage.value_or(
      blocks / stages / flags.virtual_stages.value_or(1));
  const std::int64_t chunks =
      each > 0 ? flags.virtual_stages.value_or(blocks / stages / each) : 0;
  if (chunks == 0 || chunks * each * stages != blocks) {
    const bool by_number = flags.virtual_stages.has_value();
    throw ConfigError(
        {.what = "the layers do not fill the virtual stages",
         .where = by_number ? "--num-virtual-stages-per-pipeline-rank"
                            : "--num-layers-per-virtual-pipeline-stage",
         .values = fmt::format(
             "{} layers, {} {}, {} stages",
             blocks,
             flags.virtual_stages.value_or(each),
             by_number ? "virtual stages on each rank"
                       : "on each virtual stage",
             stages),
         .remedy = "let the layers be a multiple of the other two together"});
  }
  return static_cast<int>(chunks);
}

} // namespace cairn::config
