#pragma once

#include "zero/gather/operator_observer.h"
#include "zero/internal/flat_parameters.h"

#include <cairn/distributed/process_group.h>

#include <exception>
#include <mutex>
#include <optional>
#include <vector>

namespace cairn::zero {

/// Updated weights on their way from the ranks that updated them, at stages 1
/// and 2. A bucket is waited for when an operator first uses it, so that the
/// next forward pass begins while later layers' weights still travel.
class ArrivingWeights final : UseListener {
 public:
  explicit ArrivingWeights(const FlatParameters& parameters);
  ~ArrivingWeights();
  ArrivingWeights(const ArrivingWeights&) = delete;
  ArrivingWeights& operator=(const ArrivingWeights&) = delete;

  void add(int bucket, distributed::Pending pending);
  /// Waits for all of them: before the weights change again. Throws the error
  /// of any of them.
  void wait_all();

 private:
  void before_use(int bucket) noexcept override;
  void after_use(int) noexcept override {}

  /// Recursive: waiting may run operators on the weights.
  std::recursive_mutex mutex_;
  std::vector<std::optional<distributed::Pending>> pending_; ///< by bucket
  std::exception_ptr failure_;
  OperatorObserver observer_; ///< last: it calls the members above
};

} // namespace cairn::zero
