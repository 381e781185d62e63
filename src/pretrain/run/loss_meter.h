#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/engine/batch_passes.h>
#include <cairn/monitor/run_values.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::pretrain {

/// Sums losses on their device; only mean() waits for the device.
class LossMeter {
 public:
  void add(const LossParts& losses);
  /// The mean of the losses added on all ranks of the group; then starts anew.
  /// Every rank calls it.
  std::vector<monitor::NamedValue> mean(const distributed::ProcessGroup& group);

 private:
  std::vector<std::string> names_;
  at::Tensor sums_;
  std::int64_t count_ = 0;
};

} // namespace cairn::pretrain
