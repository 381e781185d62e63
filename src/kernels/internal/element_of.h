#pragma once

#include <c10/core/ScalarType.h>
#include <cairn/kernels/stretch.h>

#include <optional>

namespace cairn::kernels {

/// The element type of a tensor's type; empty for one that kernels do not take.
inline std::optional<Element> element_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return Element::fp32;
    case at::kHalf:
      return Element::fp16;
    case at::kBFloat16:
      return Element::bf16;
    default:
      return std::nullopt;
  }
}

} // namespace cairn::kernels
