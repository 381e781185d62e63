#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace cairn::monitor {

/// A parameter, and the path of its module.
struct OwnedParameter {
  at::Tensor tensor;
  std::string module;
};

/// Modules of operators, by the numbers that at::RecordFunction gives these.
using OperatorModules = std::unordered_map<std::uint64_t, std::string>;

/// Notes which operators take a parameter, while it lives. What an operator
/// makes of one module's parameters alone counts as one of them: a transposed
/// or detached weight, or one in another type. There is one of them at a time.
class ParameterWatch {
 public:
  explicit ParameterWatch(const std::vector<OwnedParameter>& parameters);
  ~ParameterWatch();
  ParameterWatch(const ParameterWatch&) = delete;
  ParameterWatch& operator=(const ParameterWatch&) = delete;

  /// The modules of the operators that were seen.
  OperatorModules take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace cairn::monitor
