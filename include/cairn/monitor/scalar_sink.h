#pragma once

#include <cairn/monitor/run_event.h>

#include <cstdint>
#include <span>
#include <string>

namespace cairn::monitor {

/// One point of a curve.
struct Scalar {
  std::string name;
  double value = 0;
  std::int64_t step = 0; ///< iterations, or samples, or tokens

  bool operator==(const Scalar&) const = default;
};

/// Where scalars are written: event files, CSV files, JSON lines.
class ScalarSink {
 public:
  virtual ~ScalarSink() = default;

  /// Takes what is known at one moment; it may be held back until flush().
  /// Throws DataError where it cannot be written: what was handed over is lost
  /// then, and the file ends with a whole record, so that later calls may
  /// succeed again.
  virtual void write(std::span<const Scalar> scalars) = 0;
  virtual void flush() = 0;
  /// Sinks that hold numbers only have no place for it.
  virtual void event(const RunEvent&) {}
};

} // namespace cairn::monitor
