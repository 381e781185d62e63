#pragma once

#include <cairn/monitor/run_event.h>

#include <cstdint>
#include <span>
#include <string>

namespace cairn::monitor {

/// A point of a curve.
struct Scalar {
  std::string name;
  double value = 0;
  std::int64_t step = 0; ///< iterations, or samples, or tokens

  bool operator==(const Scalar&) const = default;
};

/// A destination for scalars: event files, CSV files, JSON lines.
class ScalarSink {
 public:
  virtual ~ScalarSink() = default;

  /// Takes the values of one moment; they may be held back until flush().
  /// Throws DataError when they cannot be written. They are then lost, but the
  /// file ends with a whole record, so that later calls may succeed.
  virtual void write(std::span<const Scalar> scalars) = 0;
  virtual void flush() = 0;
  /// Takes an event; sinks that hold only numbers ignore it.
  virtual void event(const RunEvent&) {}
};

} // namespace cairn::monitor
