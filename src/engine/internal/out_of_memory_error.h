#pragma once

#include <cairn/base/error.h>

namespace cairn::inline engine {

/// Thrown when the memory of the device has run out.
class OutOfMemoryError : public Error {
 public:
  using Error::Error;
};

} // namespace cairn::engine
