#include "monitor/measures/operator_owners.h"

#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/csrc/profiler/collection.h>

#include <utility>
#include <variant>
#include <vector>

namespace cairn::monitor {
namespace {

namespace profiler = torch::autograd::profiler;
namespace impl = torch::profiler::impl;

/// The module of the first parameter among an operator's inputs; null if there
/// is none.
const std::string* owner_of(
    const std::vector<impl::op_input_t>& inputs,
    const ParameterOwners& owners) {
  const auto look = [&](const impl::TensorMetadata& tensor) {
    const auto found = owners.find(tensor.impl().value_of());
    return found == owners.end() ? nullptr : &found->second;
  };
  for (const impl::op_input_t& input : inputs) {
    if (const auto* tensor = std::get_if<impl::TensorMetadata>(&input)) {
      if (const auto* owner = look(*tensor)) {
        return owner;
      }
    } else if (
        const auto* list =
            std::get_if<std::vector<impl::TensorMetadata>>(&input)) {
      for (const impl::TensorMetadata& each : *list) {
        if (const auto* owner = look(each)) {
          return owner;
        }
      }
    }
  }
  return nullptr;
}

} // namespace

std::unordered_map<std::uint64_t, std::string> operator_owners(
    const profiler::ProfilerResult& seen,
    const ParameterOwners& owners) {
  std::unordered_map<std::uint64_t, std::string> result;
  if (owners.empty()) {
    return result;
  }
  std::vector<profiler::experimental_event_t> left = seen.event_tree();
  while (!left.empty()) {
    const profiler::experimental_event_t event = std::move(left.back());
    left.pop_back();
    left.insert(left.end(), event->children_.begin(), event->children_.end());
    event->visit_if_base<impl::ExtraFields<impl::EventType::TorchOp>>(
        [&](const auto& fields) {
          if (const auto* owner = owner_of(fields.inputs_, owners)) {
            result.emplace(event->correlationID(), *owner);
          }
        });
  }
  return result;
}

} // namespace cairn::monitor
