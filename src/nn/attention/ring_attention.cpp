#include "nn/attention/ring_attention.h"

#include "nn/attention/partial_attention.h"
#include "nn/attention/ring_pass.h"
#include "nn/attention/sequence_halves.h"
#include "nn/parallel/group_capsule.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <optional>

namespace cairn::nn {
namespace {

using distributed::ProcessGroup;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Some tokens of [batch, tokens, …].
at::Tensor tokens_of(const at::Tensor& x, const TokenRange& range) {
  return x.narrow(1, range.begin, range.size);
}

PartialAttention tokens_of(const PartialAttention& x, const TokenRange& range) {
  return {
      tokens_of(x.output, range),
      x.log_sum.narrow(2, range.begin, range.size)};
}

/// The keys and values that have come to a rank, [2, batch, tokens, …].
struct Keys {
  at::Tensor both;
  at::Tensor key(const TokenRange& range) const {
    return tokens_of(both.select(0, 0), range);
  }
  at::Tensor value(const TokenRange& range) const {
    return tokens_of(both.select(0, 1), range);
  }
};

/// Calls `work(step, keys)` with the keys of every rank in turn.
template <typename Work>
void go_round(
    const at::Tensor& key,
    const at::Tensor& value,
    const ProcessGroup& group,
    const Work& work) {
  Keys keys{at::stack({key, value})};
  for (int i = 0; i < group.size(); ++i) {
    std::optional<RingPass> pass;
    if (i + 1 < group.size()) {
      pass.emplace(keys.both, group);
    }
    const int owner = ring_owner(i, group.rank(), group.size());
    work(ring_step(key.size(1), group.rank(), owner), keys);
    if (pass) {
      keys.both = pass->wait();
    }
  }
}

struct RingAttention : torch::autograd::Function<RingAttention> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& query,
      const at::Tensor& key,
      const at::Tensor& value,
      double scale,
      const ProcessGroup& group) {
    PartialAttention sum;
    go_round(key, value, group, [&](const RingStep& step, const Keys& keys) {
      const PartialAttention part = attend_partly(
          {tokens_of(query, step.queries),
           keys.key(step.keys),
           keys.value(step.keys)},
          {.causal = step.causal, .scale = scale});
      if (sum.output.defined()) {
        join(tokens_of(sum, step.queries), part);
      } else {
        // The first step: the rank's own keys, which all of its tokens look at.
        sum = {part.output.to(at::kFloat), part.log_sum};
      }
    });
    const at::Tensor output = sum.output.to(query.scalar_type());
    context->save_for_backward({query, key, value, output, sum.log_sum});
    context->saved_data["scale"] = scale;
    keep_group(*context, group);
    return output;
  }

  /// The gradients of keys and values follow the keys and values, one step
  /// behind, and are home after a whole round.
  static variable_list backward(AutogradContext* context, variable_list outer) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& query = saved[0];
    const at::Tensor& key = saved[1];
    const PartialAttention whole{saved[3], saved[4]};
    const double scale = context->saved_data["scale"].toDouble();
    const ProcessGroup& group = kept_group(*context);
    const auto floats = query.options().dtype(at::kFloat);
    const at::Tensor of_query = at::zeros(query.sizes(), floats);
    std::vector<std::int64_t> shape = key.sizes().vec();
    shape.insert(shape.begin(), 2);
    std::optional<RingPass> gradients;
    go_round(key, saved[2], group, [&](const RingStep& step, const Keys& keys) {
      const AttentionGradients part = attend_partly_backward(
          tokens_of(outer[0], step.queries),
          {tokens_of(query, step.queries),
           keys.key(step.keys),
           keys.value(step.keys)},
          tokens_of(whole, step.queries),
          {.causal = step.causal, .scale = scale});
      tokens_of(of_query, step.queries).add_(part.query);
      const Keys of_keys{
          gradients ? gradients->wait() : at::zeros(shape, floats)};
      of_keys.key(step.keys).add_(part.key);
      of_keys.value(step.keys).add_(part.value);
      gradients.emplace(of_keys.both, group);
    });
    const at::Tensor home = gradients->wait().to(key.scalar_type());
    return {
        of_query.to(query.scalar_type()),
        home.select(0, 0),
        home.select(0, 1),
        {},
        {}};
  }
};

} // namespace

at::Tensor ring_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    double scale,
    const ProcessGroup& group) {
  return RingAttention::apply(query, key, value, scale, group);
}

} // namespace cairn::nn
