#include "zero/gather/gather_order.h"

#include "distributed/internal/agreement.h"

#include <ATen/Functions.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

namespace cairn::zero {

namespace {

struct Gather {
  int bucket = -1;
  std::string parameter;
};

std::vector<Gather> gathers_of(const std::string& text) {
  std::vector<Gather> result;
  std::istringstream lines(text);
  for (Gather each; lines >> each.bucket >> each.parameter;) {
    result.push_back(each);
  }
  return result;
}

std::string what_at(const std::vector<Gather>& order, std::size_t place) {
  return place < order.size() ? order[place].parameter : "nothing more";
}

int bucket_at(const std::vector<Gather>& order, std::size_t place) {
  return place < order.size() ? order[place].bucket : -1;
}

/// Says where the order of a rank first differs from that of the first rank.
std::string first_difference(
    const std::vector<std::string>& texts,
    const std::vector<int>& ranks) {
  const std::vector<Gather> first = gathers_of(texts[0]);
  for (std::size_t other = 1; other < texts.size(); ++other) {
    const std::vector<Gather> order = gathers_of(texts[other]);
    for (std::size_t i = 0; i < std::max(first.size(), order.size()); ++i) {
      if (bucket_at(first, i) != bucket_at(order, i)) {
        return fmt::format(
            "rank {} used {} where rank {} used {}",
            ranks[other],
            what_at(order, i),
            ranks[0],
            what_at(first, i));
      }
    }
  }
  return "ranks used different parameters";
}

/// Throws the first difference between the gathers of the ranks.
[[noreturn]] void refuse(
    const distributed::ProcessGroup& group,
    const std::vector<int>& buckets,
    const std::vector<int>& parameters,
    const std::function<std::string(int parameter)>& name_of) {
  std::string mine;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    mine += fmt::format("{} {}\n", buckets[i], name_of(parameters[i]));
  }
  distributed::Agreement agreement(group, "order of gathers");
  const std::string difference = agreement(
      "comparing the order of gathers",
      mine,
      [&](const std::vector<std::string>& texts) {
        return first_difference(texts, group.global_ranks());
      },
      std::chrono::minutes(1));
  throw CommError(
      {.what = difference,
       .where = "parameters that are gathered at ZeRO stage 3",
       .remedy = std::string(same_operators)});
}

} // namespace

void GatherOrder::note(int bucket, int parameter) {
  // A multiplication between two additions: the order counts.
  word_ = (word_ + static_cast<std::uint64_t>(bucket) + 1) * 0x9e3779b97f4a7c15;
  word_ ^= word_ >> 29;
  if (gathers_.buckets.size() < most_kept) {
    gathers_.buckets.push_back(bucket);
    gathers_.parameters.push_back(parameter);
  }
}

void GatherOrder::send(
    const distributed::ProcessGroup& group,
    at::Device device) {
  if (group.size() == 1) {
    return;
  }
  // The largest of the words and of their negatives are those of one word if
  // all are the same.
  const auto word = static_cast<std::int64_t>(word_ >> 1);
  const at::Tensor both =
      at::tensor({word, -word}, at::kLong).to(device, /*non_blocking=*/true);
  sent_.emplace(
      Sent{group, both, group.all_reduce(both, distributed::ReduceOp::max)});
}

void GatherOrder::compare(
    const std::function<std::string(int parameter)>& name_of) {
  if (!sent_) {
    return;
  }
  Sent sent = *std::exchange(sent_, std::nullopt);
  sent.pending.wait();
  Gathers gathers = std::exchange(gathers_, {});
  word_ = 0;
  const auto check = [&](const distributed::ProcessGroup& group,
                         const at::Tensor& largest,
                         const Gathers& mine) {
    const auto* const both = largest.const_data_ptr<std::int64_t>();
    if (both[0] != -both[1]) {
      refuse(group, mine.buckets, mine.parameters, name_of);
    }
  };
  if (sent.largest.is_cpu()) {
    check(sent.group, sent.largest, gathers);
    return;
  }
  const at::Device device = sent.largest.device();
  Arriving next{
      sent.group,
      at::empty(
          sent.largest.sizes(),
          sent.largest.options().device(at::kCPU).pinned_memory(true)),
      c10::Event(device.type()),
      std::move(gathers)};
  next.largest.copy_(sent.largest, /*non_blocking=*/true);
  next.arrived.record(
      c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  std::optional<Arriving> earlier = std::exchange(arriving_, std::move(next));
  if (earlier) {
    earlier->arrived.synchronize(); // long over
    check(earlier->group, earlier->largest, earlier->gathers);
  }
}

} // namespace cairn::zero
