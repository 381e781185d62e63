#include "nn/attention/head_random.h"

#include "base/internal/philox.h"

#include <ATen/Context.h>

#include <mutex>

namespace cairn::nn {

HeadRandom::HeadRandom(at::Device device, std::int64_t first_head)
    : generator_(at::globalContext().defaultGenerator(device)) {
  const std::lock_guard lock(generator_.mutex());
  // A GPU's generator is a seed and an offset, both known to the host.
  const std::uint64_t offset = generator_.get_offset();
  generator_.set_offset(offset + 4);
  after_ = generator_.get_state();
  generator_.set_current_seed(Philox4x32::at(
                                  offset,
                                  static_cast<std::uint64_t>(first_head),
                                  generator_.current_seed())
                                  .pair(0));
}

HeadRandom::~HeadRandom() {
  const std::lock_guard lock(generator_.mutex());
  generator_.set_state(after_);
}

} // namespace cairn::nn
