#include "pipeline/seed_scope.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>

#include <mutex>

namespace cairn::pipeline {

std::uint64_t current_seed() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.current_seed();
}

SeedScope::SeedScope() : generator_(at::detail::getDefaultCPUGenerator()) {
  const std::lock_guard lock(generator_.mutex());
  before_ = generator_.clone();
}

SeedScope::SeedScope(std::uint64_t seed) : SeedScope() {
  const std::lock_guard lock(generator_.mutex());
  generator_.set_current_seed(seed);
}

SeedScope::~SeedScope() {
  const std::lock_guard lock(generator_.mutex());
  generator_.set_state(before_.get_state());
}

} // namespace cairn::pipeline
