#include "nn/attention/ring_pass.h"

namespace cairn::nn {
namespace {

using distributed::Pending;
using distributed::ProcessGroup;

/// An all_to_all in which each rank has rows for the next rank only.
Pending pass_on(const at::Tensor& sent, const ProcessGroup& group) {
  const int ranks = group.size();
  ProcessGroup::Counts to_next(static_cast<std::size_t>(ranks));
  ProcessGroup::Counts from_last(static_cast<std::size_t>(ranks));
  to_next[static_cast<std::size_t>((group.rank() + 1) % ranks)] = sent.size(0);
  from_last[static_cast<std::size_t>((group.rank() + ranks - 1) % ranks)] =
      sent.size(0);
  return group.all_to_all(sent, to_next, from_last);
}

} // namespace

RingPass::RingPass(const at::Tensor& sent, const ProcessGroup& group)
    : pending_(pass_on(sent, group)) {}

} // namespace cairn::nn
