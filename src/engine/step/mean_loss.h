#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/engine/batch_passes.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::inline engine {

/// The mean loss of the micro batches of a batch, with its parts. Adds up where
/// the losses are: nobody waits for a GPU.
class MeanLoss {
 public:
  void add(const BatchLoss& loss);

  at::Tensor loss() const;
  LossParts parts() const;

 private:
  std::vector<std::string> names_;
  at::Tensor sums_; ///< the loss, then its parts
  std::int64_t count_ = 0;
};

} // namespace cairn::engine
