#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/monitor/iteration.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cairn::pretrain {

/// Losses by their names, as a model gives them.
using Losses = std::vector<std::pair<std::string, at::Tensor>>;

/// Sums losses where they are; only asking for the mean waits for the device.
class LossMeter {
 public:
  void add(const Losses& losses);
  /// Over what was added, on all ranks of the group, which all call it; then
  /// starts anew.
  std::vector<monitor::NamedValue> mean(const distributed::ProcessGroup& group);
  /// Micro batches since then.
  std::int64_t count() const { return count_; }

 private:
  std::vector<std::string> names_;
  at::Tensor sums_;
  std::int64_t count_ = 0;
};

} // namespace cairn::pretrain
