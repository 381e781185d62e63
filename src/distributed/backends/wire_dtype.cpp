#include "distributed/backends/wire_dtype.h"

namespace cairn::distributed {

std::optional<c10::ScalarType> wire_dtype(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float:
    case c10::ScalarType::Double:
    case c10::ScalarType::Char:
    case c10::ScalarType::Byte:
    case c10::ScalarType::Int:
    case c10::ScalarType::Long:
      return dtype;
    case c10::ScalarType::Half:
    case c10::ScalarType::BFloat16:
    case c10::ScalarType::Float8_e4m3fn:
    case c10::ScalarType::Float8_e5m2:
      return c10::ScalarType::Float;
    case c10::ScalarType::Bool:
      return c10::ScalarType::Byte;
    case c10::ScalarType::Short:
      return c10::ScalarType::Int;
    default:
      return std::nullopt;
  }
}

} // namespace cairn::distributed
