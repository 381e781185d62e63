#include <cairn/base/error.h>
#include <cairn/optim/rampup_batch_size.h>
#include <fmt/format.h>

namespace cairn::optim {

std::int64_t BatchShare::per_microbatch() const {
  if (micro_batch_size < 1 || data_parallel_size < 1) {
    throw ConfigError(
        {.what = "micro-batch size and data-parallel size must be positive",
         .values =
             fmt::format("{} and {}", micro_batch_size, data_parallel_size)});
  }
  return micro_batch_size * data_parallel_size;
}

BatchSize BatchShare::whole(std::int64_t global) const {
  const std::int64_t unit = per_microbatch();
  if (global % unit != 0) {
    throw ConfigError(
        {.what = fmt::format(
             "global batch size {} is not divisible by micro-batch size {} "
             "times data-parallel size {}",
             global,
             micro_batch_size,
             data_parallel_size)});
  }
  return {global, global, global / unit};
}

BatchSize BatchShare::rounded_down(std::int64_t global) const {
  const std::int64_t microbatches = global / per_microbatch();
  return {global, microbatches * per_microbatch(), microbatches};
}

} // namespace cairn::optim
