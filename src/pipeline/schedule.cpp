#include <cairn/pipeline/schedule.h>

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>

namespace cairn::pipeline {
namespace {

using Order = std::vector<Pass>;

void check_sizes(int stages, int micro_batches) {
  if (stages < 1 || micro_batches < 1) {
    throw ConfigError(
        {.what = "a pipeline needs at least one stage and one micro batch",
         .values = fmt::format(
             "{} stages, {} micro batches",
             stages,
             micro_batches)});
  }
}

void add(Order& order, Pass::Kind kind, int begin, int end) {
  for (int micro_batch = begin; micro_batch < end; ++micro_batch) {
    order.push_back({kind, micro_batch});
  }
}

} // namespace

std::string_view op_name(Op op) {
  switch (op) {
    case Op::load_micro_batch:
      return "load_micro_batch";
    case Op::receive_activation:
      return "receive_activation";
    case Op::forward:
      return "forward";
    case Op::send_activation:
      return "send_activation";
    case Op::receive_gradient:
      return "receive_gradient";
    case Op::backward:
      return "backward";
    case Op::send_gradient:
      return "send_gradient";
    case Op::receive_tied_gradients:
      return "receive_tied_gradients";
    case Op::send_tied_gradients:
      return "send_tied_gradients";
    case Op::step:
      return "step";
    case Op::share_tied_weights:
      return "share_tied_weights";
  }
  return "";
}

Schedule gpipe(int stages, int micro_batches) {
  check_sizes(stages, micro_batches);
  Order order;
  add(order, Pass::Kind::forward, 0, micro_batches);
  add(order, Pass::Kind::backward, 0, micro_batches);
  return with_messages(
      "gpipe",
      micro_batches,
      std::vector<Order>(static_cast<std::size_t>(stages), order));
}

Schedule one_forward_one_backward(int stages, int micro_batches) {
  check_sizes(stages, micro_batches);
  std::vector<Order> orders;
  for (int stage = 0; stage < stages; ++stage) {
    // As many as are under way to the last stage and back.
    const int ahead = std::min(stages - stage - 1, micro_batches);
    Order& order = orders.emplace_back();
    add(order, Pass::Kind::forward, 0, ahead);
    for (int next = ahead; next < micro_batches; ++next) {
      order.push_back({Pass::Kind::forward, next});
      order.push_back({Pass::Kind::backward, next - ahead});
    }
    add(order, Pass::Kind::backward, micro_batches - ahead, micro_batches);
  }
  return with_messages("1f1b", micro_batches, orders);
}

Schedule inference(int stages, int micro_batches) {
  check_sizes(stages, micro_batches);
  Order order;
  add(order, Pass::Kind::forward, 0, micro_batches);
  return with_messages(
      "inference",
      micro_batches,
      std::vector<Order>(static_cast<std::size_t>(stages), order));
}

} // namespace cairn::pipeline
