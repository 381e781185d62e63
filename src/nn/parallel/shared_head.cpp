#include <cairn/nn/shared_head.h>

#include "nn/moe/token_shares.h"
#include "nn/parallel/group_capsule.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace cairn::nn {
namespace {

using distributed::ProcessGroup;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The way of columns between the ranks.
enum class Way { to_users, to_computers };

/// Sends columns of `x`, [tokens, columns], to the other ranks of the head and
/// adds what arrives to `into`.
void move_columns(
    const at::Tensor& x,
    const at::Tensor& into,
    Way way,
    const SharedHead& head,
    const ProcessGroup& group) {
  const bool forth = way == Way::to_users;
  const auto from = forth ? &HeadStretch::computed_by : &HeadStretch::used_by;
  const auto to = forth ? &HeadStretch::used_by : &HeadStretch::computed_by;
  const auto at_sender =
      forth ? &HeadStretch::computed_at : &HeadStretch::used_at;
  const auto at_receiver =
      forth ? &HeadStretch::used_at : &HeadStretch::computed_at;
  const int place = group.rank() % head.ranks;
  const int first = group.rank() - place; // of the ranks that share the head
  const std::int64_t tokens = x.size(0);

  std::vector<HeadStretch> all = head_stretches(head);
  ProcessGroup::Counts sent(static_cast<std::size_t>(group.size()), 0);
  ProcessGroup::Counts received = sent;
  std::vector<at::Tensor> pieces;
  std::ranges::stable_sort(all, {}, to);
  for (const HeadStretch& each : all) {
    if (each.*from == place) {
      pieces.push_back(
          x.narrow(1, each.*at_sender, each.columns).reshape({-1}));
      sent[static_cast<std::size_t>(first + each.*to)] += tokens * each.columns;
    }
  }
  std::ranges::stable_sort(all, {}, from);
  for (const HeadStretch& each : all) {
    if (each.*to == place) {
      received[static_cast<std::size_t>(first + each.*from)] +=
          tokens * each.columns;
    }
  }
  const at::Tensor arrived =
      group.all_to_all(at::cat(pieces), sent, received).wait();
  std::int64_t begin = 0;
  for (const HeadStretch& each : all) {
    if (each.*to != place) {
      continue;
    }
    const std::int64_t count = tokens * each.columns;
    const at::Tensor piece =
        arrived.narrow(0, begin, count).view({tokens, each.columns});
    at::Tensor place_of_piece = into.narrow(1, each.*at_receiver, each.columns);
    if (forth) { // each column arrives once
      place_of_piece.copy_(piece);
    } else {
      place_of_piece.add_(piece);
    }
    begin += count;
  }
}

/// Holds a SharedHead in a form that autograd's contexts can keep.
struct SharedHeadCapsule : torch::CustomClassHolder {
  explicit SharedHeadCapsule(const SharedHead& kept) : head(kept) {}
  SharedHead head;
};

struct ExchangeHead : torch::autograd::Function<ExchangeHead> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const SharedHead& head,
      const ProcessGroup& group) {
    keep_group(*context, group);
    context->saved_data["head"] =
        c10::IValue::make_capsule(c10::make_intrusive<SharedHeadCapsule>(head));
    const at::Tensor computed = flat_tokens(x);
    const at::Tensor used =
        at::empty({computed.size(0), head.columns_used()}, x.options());
    move_columns(computed, used, Way::to_users, head, group);
    return used.view({x.size(0), x.size(1), -1});
  }
  static variable_list backward(
      AutogradContext* context,
      variable_list gradients) {
    const auto capsule = context->saved_data.at("head").toCapsule();
    const SharedHead& head =
        static_cast<const SharedHeadCapsule&>(*capsule).head;
    const at::Tensor of_used = flat_tokens(gradients[0]);
    const at::Tensor of_computed = at::zeros(
        {of_used.size(0), head.columns_computed()},
        of_used.options());
    move_columns(
        of_used,
        of_computed,
        Way::to_computers,
        head,
        kept_group(*context));
    return {
        of_computed.view({gradients[0].size(0), gradients[0].size(1), -1}),
        {},
        {}};
  }
};

} // namespace

std::vector<HeadStretch> head_stretches(const SharedHead& head) {
  const std::int64_t share = head.columns_computed();
  const std::int64_t all_queries = head.ranks * head.query_columns;
  std::vector<HeadStretch> result;
  for (int computer = 0; computer < head.ranks; ++computer) {
    const std::int64_t begin = computer * share;
    for (int user = 0; user < head.ranks; ++user) {
      // Adds the part of columns [first, first + count) that is computed here.
      const auto add =
          [&](std::int64_t first, std::int64_t count, std::int64_t used_at) {
            const std::int64_t from = std::max(first, begin);
            const std::int64_t to = std::min(first + count, begin + share);
            if (from < to) {
              result.push_back(
                  {.computed_by = computer,
                   .used_by = user,
                   .computed_at = from - begin,
                   .used_at = used_at + from - first,
                   .columns = to - from});
            }
          };
      add(user * head.query_columns, head.query_columns, 0);
      add(all_queries, head.key_value_columns, head.query_columns);
    }
  }
  return result;
}

at::Tensor exchange_head(
    const at::Tensor& x,
    const SharedHead& head,
    const ProcessGroup& group) {
  return head.ranks == 1 ? x : ExchangeHead::apply(x, head, group);
}

} // namespace cairn::nn
