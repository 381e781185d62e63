#include <cairn/nn/dropout.h>

#include "base/internal/philox.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/dropout.h>

#include <mutex>
#include <optional>

namespace cairn::nn {

RankRandom::RankRandom(
    const distributed::ProcessGroup& group,
    at::Device device) {
  if (group.size() == 1) {
    return;
  }
  generator_ = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator_.mutex());
  std::uint64_t drawn = 0;
  if (device.is_cpu()) {
    drawn = generator_.get<at::CPUGeneratorImpl>()->random64();
    after_ = generator_.get_state();
  } else {
    // On a GPU the generator is a seed and an offset, both known to the host.
    drawn = generator_.get_offset();
    generator_.set_offset(drawn + 4);
    after_ = generator_.get_state();
  }
  const auto rank = static_cast<std::uint64_t>(group.rank());
  const auto own =
      Philox4x32::at(drawn, rank, generator_.current_seed()).pair(0);
  generator_.set_current_seed(own);
}

RankRandom::~RankRandom() {
  if (generator_.defined()) {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(after_);
  }
}

at::Tensor dropout(
    const at::Tensor& x,
    double probability,
    bool training,
    Held held,
    const distributed::ProcessGroup& group) {
  if (!training || probability == 0) {
    return x;
  }
  std::optional<RankRandom> own;
  if (held == Held::split) {
    own.emplace(group, x.device());
  }
  return at::dropout(x, probability, true);
}

} // namespace cairn::nn
