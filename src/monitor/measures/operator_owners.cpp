#include "monitor/measures/operator_owners.h"

#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/csrc/profiler/collection.h>

#include <utility>
#include <vector>

namespace cairn::monitor {

std::unordered_map<std::uint64_t, std::string> operator_owners(
    const torch::autograd::profiler::ProfilerResult& seen,
    const OperatorModules& modules) {
  namespace impl = torch::profiler::impl;
  std::unordered_map<std::uint64_t, std::string> result;
  if (modules.empty()) {
    return result;
  }
  auto left = seen.event_tree();
  while (!left.empty()) {
    const auto event = std::move(left.back());
    left.pop_back();
    left.insert(left.end(), event->children_.begin(), event->children_.end());
    event->visit_if_base<impl::ExtraFields<impl::EventType::TorchOp>>(
        [&](const auto& fields) {
          const auto found = modules.find(fields.record_function_id_);
          if (found != modules.end()) {
            result.emplace(event->correlationID(), found->second);
          }
        });
  }
  return result;
}

} // namespace cairn::monitor
