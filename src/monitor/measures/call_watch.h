#pragma once

#include "monitor/measures/traced_modules.h"

#include <memory>
#include <vector>

namespace cairn::monitor {

/// Notes who calls operators, while it lives: of every operator that no other
/// operator has called. There is one of them at a time.
class CallWatch {
 public:
  CallWatch();
  ~CallWatch();
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  /// The operators that were seen, in the order in which each thread began
  /// them, with the functions that lead to them: "cairn::nn::Mlp::forward;…",
  /// the innermost first.
  std::vector<CalledOperator> take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace cairn::monitor
