#include <cairn/pipeline/schedule.h>

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

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

void check_chunks(int stages, int chunks) {
  if (chunks < 1 || (chunks > 1 && stages < 2)) {
    throw ConfigError(
        {.what = "a stage has at least one chunk of the model, and several "
                 "only where there are other stages",
         .values = fmt::format("{} chunks, {} stages", chunks, stages)});
  }
}

/// Removes the passes of micro batches that do not exist.
void drop_beyond(Order& order, int micro_batches) {
  std::erase_if(order, [&](const Pass& pass) {
    return pass.micro_batch >= micro_batches;
  });
}

/// All passes of one kind in the order of the interleaved schedule: chunk by
/// chunk for as many micro batches as there are stages, then for the next
/// group. The last group is as large as the others, even if it goes beyond the
/// end.
Order by_groups(Pass::Kind kind, int stages, int micro_batches, int chunks) {
  Order order;
  for (int group = 0; group < micro_batches; group += stages) {
    const int end = group + stages;
    for (int turn = 0; turn < chunks; ++turn) {
      const int chunk = kind == Pass::Kind::forward ? turn : chunks - 1 - turn;
      for (int micro_batch = group; micro_batch < end; ++micro_batch) {
        order.push_back({kind, micro_batch, chunk});
      }
    }
  }
  return order;
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
    case Op::weight_gradients:
      return "weight_gradients";
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
    // Micro batches that are on their way to the last stage and back.
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

Schedule interleaved(int stages, int micro_batches, int chunks) {
  check_sizes(stages, micro_batches);
  check_chunks(stages, chunks);
  if (chunks == 1) {
    return one_forward_one_backward(stages, micro_batches);
  }
  const Order forwards =
      by_groups(Pass::Kind::forward, stages, micro_batches, chunks);
  const Order backwards =
      by_groups(Pass::Kind::backward, stages, micro_batches, chunks);
  const std::size_t passes = forwards.size();
  std::vector<Order> orders;
  for (int stage = 0; stage < stages; ++stage) {
    // Passes until the first micro batch is back: through the other chunks, and
    // twice the way to the last stage, since half of the passes on the way are
    // backward.
    const std::size_t ahead = std::min(
        passes,
        static_cast<std::size_t>(
            2 * (stages - stage - 1) + (chunks - 1) * stages));
    Order& order = orders.emplace_back(
        forwards.begin(),
        forwards.begin() + static_cast<std::ptrdiff_t>(ahead));
    for (std::size_t next = 0; next < passes; ++next) {
      if (ahead + next < passes) {
        order.push_back(forwards[ahead + next]);
      }
      order.push_back(backwards[next]);
    }
    drop_beyond(order, micro_batches);
  }
  return with_messages("interleaved", micro_batches, orders, chunks);
}

Schedule zero_bubble_h1(int stages, int micro_batches) {
  check_sizes(stages, micro_batches);
  std::vector<Order> orders;
  for (int stage = 0; stage < stages; ++stage) {
    const int ahead = std::min(stages - stage - 1, micro_batches);
    // The weight gradients of a micro batch wait for this many more backward
    // passes. The later a stage, the fewer forward passes it is ahead; with
    // these waits every stage keeps the same number of micro batches live. The
    // passes that were put off fill the gaps between the last backward passes
    // of the stages before.
    const int behind = stage;
    Order& order = orders.emplace_back();
    add(order, Pass::Kind::forward, 0, ahead);
    for (int done = 0; done < micro_batches; ++done) {
      if (ahead + done < micro_batches) {
        order.push_back({Pass::Kind::forward, ahead + done});
      }
      order.push_back({Pass::Kind::backward, done});
      if (done >= behind) {
        order.push_back({Pass::Kind::weights, done - behind});
      }
    }
    add(order,
        Pass::Kind::weights,
        std::max(micro_batches - behind, 0),
        micro_batches);
  }
  return with_messages("zb-h1", micro_batches, orders);
}

Schedule inference(int stages, int micro_batches, int chunks) {
  check_sizes(stages, micro_batches);
  check_chunks(stages, chunks);
  Order order = by_groups(Pass::Kind::forward, stages, micro_batches, chunks);
  drop_beyond(order, micro_batches);
  return with_messages(
      "inference",
      micro_batches,
      std::vector<Order>(static_cast<std::size_t>(stages), order),
      chunks);
}

const std::vector<std::string_view>& schedule_names() {
  static const std::vector<std::string_view> names{
      "gpipe",
      "1f1b",
      "interleaved",
      "zb-h1"};
  return names;
}

Schedule make_schedule(
    std::string_view name,
    int stages,
    int micro_batches,
    int chunks) {
  if (name == "interleaved") {
    return interleaved(stages, micro_batches, chunks);
  }
  if (chunks != 1) {
    throw ConfigError(
        {.what = fmt::format("a schedule without chunks: \"{}\"", name),
         .values = fmt::format("{} chunks", chunks),
         .remedy = "use interleaved, or one chunk"});
  }
  if (name == "gpipe") {
    return gpipe(stages, micro_batches);
  }
  if (name == "1f1b") {
    return one_forward_one_backward(stages, micro_batches);
  }
  if (name == "zb-h1") {
    return zero_bubble_h1(stages, micro_batches);
  }
  throw ConfigError(
      {.what = fmt::format("no schedule of that name: \"{}\"", name),
       .remedy = fmt::format("use {}", fmt::join(schedule_names(), ", "))});
}

} // namespace cairn::pipeline
