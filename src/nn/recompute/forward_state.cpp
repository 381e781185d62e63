#include "nn/recompute/forward_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/autocast_mode.h>
#include "nn/recompute/devices_in_use.h"

#include <mutex>

namespace cairn::nn {
namespace {

at::Tensor state_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

} // namespace

RandomState RandomState::now() {
  RandomState all;
  const auto add = [&](const at::Generator& generator) {
    all.each_.push_back({generator, state_of(generator)});
  };
  add(at::detail::getDefaultCPUGenerator());
  for (const c10::Device& device : devices_in_use()) {
    add(at::globalContext().defaultGenerator(device));
  }
  return all;
}

RandomState RandomState::now_of_these() const {
  RandomState now = *this;
  for (Each& each : now.each_) {
    each.state = state_of(each.generator);
  }
  return now;
}

void RandomState::set() const {
  for (const Each& each : each_) {
    at::Generator generator = each.generator;
    const std::lock_guard lock(generator.mutex());
    generator.set_state(each.state);
  }
}

AutocastState AutocastState::now() {
  AutocastState all;
  const auto add = [&](at::DeviceType device) {
    all.each_.push_back(
        {device,
         at::autocast::is_autocast_enabled(device),
         at::autocast::get_autocast_dtype(device)});
  };
  add(at::kCPU);
  if (const auto accelerator = at::getAccelerator()) {
    add(*accelerator);
  }
  all.cache_ = at::autocast::is_autocast_cache_enabled();
  return all;
}

void AutocastState::set() const {
  for (const Each& each : each_) {
    at::autocast::set_autocast_enabled(each.device, each.enabled);
    at::autocast::set_autocast_dtype(each.device, each.dtype);
  }
  at::autocast::set_autocast_cache_enabled(cache_);
}

ForwardStateScope::ForwardStateScope(const ForwardState& state)
    : random_(state.random.now_of_these()),
      autocast_(AutocastState::now()),
      deferral_(state.deferral) {
  state.random.set();
  state.autocast.set();
  at::autocast::increment_nesting();
}

ForwardStateScope::~ForwardStateScope() {
  // Backward often runs outside any autocast region. Without this, the casts
  // made here would stay in the cache until after the parameters have changed.
  if (at::autocast::decrement_nesting() == 0) {
    at::autocast::clear_cache();
  }
  autocast_.set();
  random_.set();
}

} // namespace cairn::nn
