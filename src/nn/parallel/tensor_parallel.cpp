#include <cairn/nn/tensor_parallel.h>

#include "nn/moe/token_shares.h"
#include "nn/parallel/group_capsule.h"

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct ReduceFromGroup : Function<ReduceFromGroup> {
  static at::Tensor forward(
      AutogradContext* context,
      at::Tensor x,
      const ProcessGroup& group) {
    context->mark_dirty({x});
    group.all_reduce(x).wait();
    return x;
  }
  static variable_list backward(AutogradContext*, variable_list gradients) {
    return {gradients[0], {}};
  }
};

struct CopyToGroup : Function<CopyToGroup> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const ProcessGroup& group) {
    keep_group(*context, group);
    return x.view_as(x);
  }
  static variable_list backward(
      AutogradContext* context,
      variable_list gradients) {
    at::Tensor sum = gradients[0].clone(at::MemoryFormat::Contiguous);
    kept_group(*context).all_reduce(sum).wait();
    return {sum, {}};
  }
};

struct Exchange : Function<Exchange> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const ProcessGroup& group) {
    keep_group(*context, group);
    return group.all_to_all(x.contiguous()).wait();
  }
  static variable_list backward(
      AutogradContext* context,
      variable_list gradients) {
    return {
        kept_group(*context).all_to_all(gradients[0].contiguous()).wait(),
        {}};
  }
};

/// The ranks' shares of tokens, joined.
at::Tensor all_tokens(const at::Tensor& own, const ProcessGroup& group) {
  return as_whole(group.all_gather(flat_tokens(own)).wait(), own, group);
}

/// This rank's share of the tokens, as a view.
at::Tensor share_of_tokens(const at::Tensor& x, const ProcessGroup& group) {
  const at::Tensor all = flat_tokens(x);
  const std::int64_t share = all.size(0) / group.size();
  return as_share(all.narrow(0, share * group.rank(), share), x, group);
}

struct ScatterTokens : Function<ScatterTokens> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const ProcessGroup& group) {
    keep_group(*context, group);
    return as_share(group.reduce_scatter(flat_tokens(x)).wait(), x, group);
  }
  static variable_list backward(
      AutogradContext* context,
      variable_list gradients) {
    return {all_tokens(gradients[0], kept_group(*context)), {}};
  }
};

struct GatherTokens : Function<GatherTokens> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const ProcessGroup& group) {
    keep_group(*context, group);
    return all_tokens(x, group);
  }
  static variable_list backward(
      AutogradContext* context,
      variable_list gradients) {
    return {share_of_tokens(gradients[0], kept_group(*context)), {}};
  }
};

struct KeepOwnTokens : Function<KeepOwnTokens> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const ProcessGroup& group) {
    keep_group(*context, group);
    return share_of_tokens(x, group).clone();
  }
  static variable_list backward(
      AutogradContext* context,
      variable_list gradients) {
    return {all_tokens(gradients[0], kept_group(*context)), {}};
  }
};

struct GatherColumns : Function<GatherColumns> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const ProcessGroup& group) {
    keep_group(*context, group);
    std::vector<std::int64_t> shape = x.sizes().vec();
    const std::int64_t columns = shape.back();
    const std::int64_t rows = x.numel() / columns;
    shape.back() = columns * group.size();
    return group.all_gather(x.contiguous())
        .wait()
        .view({group.size(), rows, columns})
        .transpose(0, 1)
        .reshape(shape);
  }
  static variable_list backward(
      AutogradContext* context,
      variable_list gradients) {
    const ProcessGroup& group = kept_group(*context);
    const std::int64_t columns = gradients[0].size(-1) / group.size();
    return {gradients[0].narrow(-1, columns * group.rank(), columns), {}};
  }
};

} // namespace

at::Tensor reduce_from_group(const at::Tensor& x, const ProcessGroup& group) {
  return group.size() == 1 ? x : ReduceFromGroup::apply(x, group);
}

at::Tensor copy_to_group(const at::Tensor& x, const ProcessGroup& group) {
  return group.size() == 1 ? x : CopyToGroup::apply(x, group);
}

at::Tensor keep_own_tokens(const at::Tensor& x, const ProcessGroup& group) {
  return group.size() == 1 ? x : KeepOwnTokens::apply(x, group);
}

at::Tensor exchange(const at::Tensor& x, const ProcessGroup& group) {
  return group.size() == 1 ? x : Exchange::apply(x, group);
}

at::Tensor scatter_tokens(const at::Tensor& x, const ProcessGroup& group) {
  return group.size() == 1 ? x : ScatterTokens::apply(x, group);
}

at::Tensor gather_tokens(const at::Tensor& x, const ProcessGroup& group) {
  return group.size() == 1 ? x : GatherTokens::apply(x, group);
}

at::Tensor gather_columns(const at::Tensor& x, const ProcessGroup& group) {
  return group.size() == 1 ? x : GatherColumns::apply(x, group);
}

at::Tensor own_tokens(const at::Tensor& ids, const ProcessGroup& group) {
  if (group.size() == 1) {
    return ids;
  }
  check_divides(ids, group);
  const std::int64_t share = ids.numel() / group.size();
  return ids.reshape({-1})
      .narrow(0, share * group.rank(), share)
      .view({ids.size(0), ids.size(1) / group.size()});
}

} // namespace cairn::nn
