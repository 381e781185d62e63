#include "nn/attention/ring_pass.h"

#include <ATen/ops/empty_like.h>

namespace cairn::nn {

RingPass::RingPass(at::Tensor sent, const distributed::ProcessGroup& group)
    : received_(at::empty_like(sent)) {
  const int ranks = group.size();
  const auto send = [&] {
    pending_.push_back(group.send(sent, (group.rank() + 1) % ranks));
  };
  const auto receive = [&] {
    pending_.push_back(
        group.recv(received_, (group.rank() + ranks - 1) % ranks));
  };
  // On GPUs the messages between two ranks run one after the other: if both
  // sent first, both would wait for the other to receive.
  if (group.rank() % 2 == 0) {
    send();
    receive();
  } else {
    receive();
    send();
  }
}

at::Tensor RingPass::wait() {
  for (distributed::Pending& each : pending_) {
    each.wait();
  }
  return received_;
}

} // namespace cairn::nn
