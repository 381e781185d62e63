#pragma once

#include "pipeline/channel.h"

#include <cairn/pipeline/pipeline_module.h>

#include <functional>
#include <utility>
#include <vector>

namespace cairn::pipeline {

/// Keeps the copies of a weight that several stages use equal to their owner,
/// and brings their gradients to it.
class TiedWeights {
 public:
  using MakeChannel = std::function<Channel(int stage)>;

  TiedWeights(const PipelineModule& module, const MakeChannel& channel_to);

  /// Every stage calls it: copies take the owner's values.
  void share();

  /// After each backward: adds up what the copies got, in fp32.
  void collect();
  /// To the owners; what has been collected is gone then.
  void send_gradients();
  /// Parameters of which this stage is the owner, and what to add to their
  /// gradients.
  std::vector<std::pair<at::Tensor, at::Tensor>> receive_gradients();

 private:
  struct Copy {
    at::Tensor parameter;
    at::Tensor sum;
  };
  struct Shared {
    bool owned = false;
    std::vector<Channel> peers; ///< the stages with copies, or the owner
    std::vector<Copy> parameters;
  };

  std::vector<Shared> shared_; ///< of this stage, owners ascending
};

} // namespace cairn::pipeline
