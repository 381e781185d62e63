#pragma once

#include "zero/gather/operator_observer.h"
#include "zero/internal/flat_parameters.h"

#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

namespace cairn::zero {

/// Updated weights on their way from the ranks that updated them, or still
/// being updated beside other work, at stages 1 and 2. A bucket is waited for
/// when an operator first uses it, so that the next forward pass begins while
/// later layers' weights are not there yet.
class ArrivingWeights final : UseListener {
 public:
  explicit ArrivingWeights(const FlatParameters& parameters);
  ~ArrivingWeights();
  ArrivingWeights(const ArrivingWeights&) = delete;
  ArrivingWeights& operator=(const ArrivingWeights&) = delete;

  /// `wait` returns when the bucket's weights are there, for the host or for
  /// work that the device is asked for from then on.
  void add(int bucket, std::function<void()> wait);
  /// Waits for all of them: before the weights change again. Throws the error
  /// of any of them.
  void wait_all();

 private:
  void before_use(int bucket, std::int64_t) noexcept override;
  void wait_for(int bucket) noexcept;
  void after_use(int) noexcept override {}

  /// Recursive: waiting may run operators on the weights.
  std::recursive_mutex mutex_;
  std::vector<std::function<void()>> waits_; ///< by bucket; may be empty
  std::exception_ptr failure_;
  OperatorObserver observer_; ///< last: it calls the members above
};

} // namespace cairn::zero
