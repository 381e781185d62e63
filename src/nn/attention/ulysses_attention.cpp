#include "nn/attention/ulysses_attention.h"

#include "nn/parallel/group_capsule.h"

#include <ATen/ops/cat.h>

#include <algorithm>

namespace cairn::nn {
namespace {

using distributed::ProcessGroup;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Turns [batch, own tokens, heads, size] into [batch, tokens, own heads,
/// size].
at::Tensor to_heads(const at::Tensor& x, const ProcessGroup& group) {
  return group
      .all_to_all(x.unflatten(2, {group.size(), -1})
                      .permute({2, 0, 1, 3, 4})
                      .contiguous())
      .wait()
      .transpose(0, 1)
      .flatten(1, 2);
}

/// The reverse of to_heads().
at::Tensor to_tokens(const at::Tensor& x, const ProcessGroup& group) {
  return group
      .all_to_all(
          x.unflatten(1, {group.size(), -1}).transpose(0, 1).contiguous())
      .wait()
      .permute({1, 2, 0, 3, 4})
      .flatten(2, 3);
}

using AllToAll = at::Tensor (*)(const at::Tensor&, const ProcessGroup&);

/// An exchange whose gradient goes back by the reverse exchange.
template <AllToAll there, AllToAll back>
struct Exchanged : torch::autograd::Function<Exchanged<there, back>> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const ProcessGroup& group) {
    keep_group(*context, group);
    return there(x, group);
  }
  static variable_list backward(AutogradContext* context, variable_list outer) {
    return {back(outer[0], kept_group(*context)), {}};
  }
};

} // namespace

at::Tensor ulysses_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    AttendOptions options,
    const ProcessGroup& group) {
  const auto in_parts = [&](const at::Tensor& x) {
    return x.unflatten(2, {group.size(), -1});
  };
  // Where there are fewer heads of keys and values than ranks, the ranks whose
  // queries share one all get it. Their gradients of it are added up on the way
  // back.
  const auto for_ranks = [&](const at::Tensor& x) {
    const std::int64_t sharers = group.size() / x.size(2);
    return in_parts(sharers <= 1 ? x : x.repeat_interleave(sharers, 2));
  };
  // One exchange serves all three.
  const at::Tensor together =
      at::cat({in_parts(query), for_ranks(key), for_ranks(value)}, 3)
          .flatten(2, 3);
  const std::int64_t heads = query.size(2) / group.size();
  const std::int64_t groups =
      std::max<std::int64_t>(1, key.size(2) / group.size());
  const auto own = Exchanged<to_heads, to_tokens>::apply(together, group)
                       .split_with_sizes({heads, groups, groups}, 2);
  options.noise.first_head += group.rank() * heads;
  const at::Tensor output = attend(own[0], own[1], own[2], options);
  return Exchanged<to_tokens, to_heads>::apply(
             output.unflatten(2, {heads, -1}),
             group)
      .flatten(2, 3);
}

} // namespace cairn::nn
