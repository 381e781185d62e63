#pragma once

#include "pipeline/channel.h"

#include <cairn/pipeline/pipeline_module.h>

#include <functional>
#include <utility>
#include <vector>

namespace cairn::pipeline {

/// Keeps the copies of a weight that several stages use equal to the owner's,
/// and brings their gradients to the owner.
class TiedWeights {
 public:
  using MakeChannel = std::function<Channel(int stage)>;

  TiedWeights(const PipelineModule& module, const MakeChannel& channel_to);

  /// Begins a batch, on every stage.
  void begin_batch();
  /// Gives copies the owner's values. Every stage calls it.
  void share();

  /// Adds up the gradients of the copies, in fp32. Called after each backward.
  void collect();
  /// Sends the collected gradients to the owners, and forgets them.
  void send_gradients();
  /// Parameters that this stage owns, each with the sum to add to its gradient.
  std::vector<std::pair<at::Tensor, at::Tensor>> receive_gradients();

 private:
  struct Copy {
    at::Tensor parameter;
    at::Tensor sum;
  };
  struct Shared {
    bool owned = false;
    std::vector<Channel> peers; ///< stages with copies, or the owner
    std::vector<Copy> parameters;
  };

  std::vector<Shared> shared_; ///< on this stage, owners ascending
};

} // namespace cairn::pipeline
