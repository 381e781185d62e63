#pragma once

#include <cairn/pipeline/schedule.h>

#include <optional>

namespace cairn::pipeline {

/// The kind of pass that an instruction makes; none for another instruction.
inline std::optional<Pass::Kind> pass_of(Op op) {
  switch (op) {
    case Op::forward:
      return Pass::Kind::forward;
    case Op::backward:
      return Pass::Kind::backward;
    case Op::weight_gradients:
      return Pass::Kind::weights;
    default:
      return std::nullopt;
  }
}

} // namespace cairn::pipeline
