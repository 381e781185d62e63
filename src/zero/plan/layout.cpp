#include "zero/internal/layout.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

namespace cairn::zero {

namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void check(const LayoutOptions& options) {
  if (options.world < 1 || options.expert_world < 1 ||
      options.bucket_elements < 1 || options.alignment < 1 ||
      options.persistent_below < 0) {
    throw UsageError(
        {.what = "a ZeRO layout needs positive numbers",
         .values = fmt::format(
             "world {}, bucket {}, alignment {}, persistence threshold {}",
             options.world,
             options.bucket_elements,
             options.alignment,
             options.persistent_below)});
  }
}

} // namespace

std::int64_t ParameterSpec::elements() const {
  return std::accumulate(
      shape.begin(),
      shape.end(),
      std::int64_t{1},
      std::multiplies<>());
}

Layout::Layout(
    std::vector<ParameterSpec> parameters,
    const LayoutOptions& options)
    : parameters_(std::move(parameters)),
      options_(options),
      homes_(parameters_.size()) {
  check(options_);
  std::vector<bool> persistent(parameters_.size(), false);
  std::int64_t persistent_elements = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::int64_t elements = parameters_[i].elements();
    if (elements < options_.persistent_below &&
        persistent_elements + elements <= options_.persistent_total) {
      persistent[i] = true;
      persistent_elements += elements;
    }
  }
  std::set<std::pair<bool, int>> kinds;
  for (const ParameterSpec& parameter : parameters_) {
    kinds.emplace(parameter.expert, parameter.kind);
  }
  for (const bool trainable : {true, false}) {
    for (const bool stays : {false, true}) {
      for (const auto& [expert, kind] : kinds) {
        std::vector<int> order;
        for (int i = static_cast<int>(parameters_.size()) - 1; i >= 0; --i) {
          if (parameters_[i].trainable == trainable && persistent[i] == stays &&
              parameters_[i].expert == expert && parameters_[i].kind == kind) {
            order.push_back(i);
          }
        }
        place(order, trainable, stays);
      }
    }
  }
  sort_buckets();
}

/// Orders buckets by their first parameter: a bucket is complete with that one,
/// the last that backward comes to. Trained buckets come first.
void Layout::sort_buckets() {
  const auto first_of = [](const Bucket& bucket) {
    return std::ranges::min(bucket.members, {}, &Placement::parameter)
        .parameter;
  };
  std::ranges::stable_sort(buckets_, [&](const Bucket& a, const Bucket& b) {
    return a.trainable != b.trainable ? a.trainable : first_of(a) > first_of(b);
  });
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (std::size_t i = 0; i < buckets_[b].members.size(); ++i) {
      homes_[buckets_[b].members[i].parameter] = {
          static_cast<int>(b),
          static_cast<int>(i)};
    }
  }
}

void Layout::place(
    const std::vector<int>& order,
    bool trainable,
    bool persistent) {
  auto first = order.begin();
  while (first != order.end()) {
    auto last = first;
    std::int64_t size = 0;
    do {
      size += rounded_up(parameters_[*last].elements(), options_.alignment);
      ++last;
    } while (last != order.end() &&
             size + parameters_[*last].elements() <= options_.bucket_elements);

    std::vector<int> members(first, last);
    std::ranges::stable_sort(members, {}, [&](int parameter) {
      return parameters_[parameter].group;
    });
    Bucket bucket{
        .trainable = trainable,
        .persistent = persistent,
        .expert = parameters_[members.front()].expert};
    for (const int parameter : members) {
      const std::int64_t elements = parameters_[parameter].elements();
      bucket.members.push_back({parameter, bucket.elements, elements});
      bucket.elements += rounded_up(elements, options_.alignment);
    }
    bucket.elements =
        rounded_up(bucket.elements, world_of(bucket) * options_.alignment);
    buckets_.push_back(std::move(bucket));
    first = last;
  }
}

int Layout::bucket_of(int parameter) const {
  return homes_.at(parameter).bucket;
}

const Placement& Layout::placement_of(int parameter) const {
  const Home& home = homes_.at(parameter);
  return buckets_[home.bucket].members[home.member];
}

Range Layout::shard(int bucket, int rank) const {
  const std::int64_t size =
      buckets_.at(bucket).elements / world_of(buckets_.at(bucket));
  return {rank * size, (rank + 1) * size};
}

std::vector<Slice> Layout::slices(int bucket, Range range) const {
  std::vector<Slice> result;
  for (const Placement& member : buckets_.at(bucket).members) {
    const std::int64_t begin = std::max(range.begin, member.offset);
    const std::int64_t end =
        std::min(range.end, member.offset + member.elements);
    if (begin < end) {
      result.push_back(
          {member.parameter,
           {begin - member.offset, end - member.offset},
           begin});
    }
  }
  return result;
}

std::vector<Segment> Layout::segments(int bucket, Range range) const {
  std::vector<Segment> result;
  const std::vector<Placement>& members = buckets_.at(bucket).members;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const int group = parameters_[members[i].parameter].group;
    const std::int64_t end = i + 1 < members.size() ? members[i + 1].offset
                                                    : buckets_[bucket].elements;
    const Range part{
        std::max(range.begin, members[i].offset),
        std::min(range.end, end)};
    if (part.begin >= part.end) {
      continue;
    }
    if (!result.empty() && result.back().group == group) {
      result.back().in_bucket.end = part.end;
    } else {
      result.push_back({group, part});
    }
  }
  return result;
}

std::int64_t Layout::elements() const {
  std::int64_t sum = 0;
  for (const ParameterSpec& spec : parameters_) {
    sum += spec.elements();
  }
  return sum;
}

std::int64_t Layout::padded_elements() const {
  std::int64_t sum = 0;
  for (const Bucket& bucket : buckets_) {
    sum += bucket.elements;
  }
  return sum;
}

std::string Layout::describe() const {
  std::string text = fmt::format(
      "{} parameters, {} elements, {} ranks\n{:>6} {:>14} {:>14} {:>9}  {}\n",
      parameters_.size(),
      elements(),
      world(),
      "bucket",
      "elements",
      "per rank",
      "padding",
      "members");
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    std::int64_t used = 0;
    for (const Placement& member : bucket.members) {
      used += member.elements;
    }
    const std::string& first =
        parameters_[bucket.members.front().parameter].name;
    const std::string& last = parameters_[bucket.members.back().parameter].name;
    fmt::format_to(
        std::back_inserter(text),
        "{:>6} {:>14} {:>14} {:>9}  {}{}{}\n",
        b,
        bucket.elements,
        bucket.elements / world_of(bucket),
        bucket.elements - used,
        bucket.members.size() == 1
            ? first
            : fmt::format("{} … {} ({})", first, last, bucket.members.size()),
        bucket.trainable ? "" : ", frozen",
        bucket.persistent ? ", whole on every rank" : "");
  }
  return text;
}

std::int64_t bucket_capacity(
    std::int64_t model_elements,
    std::int64_t limit,
    int ranks) {
  constexpr std::int64_t smallest = 1'000'000;
  const std::int64_t largest =
      std::max<std::int64_t>(16'000'000, std::int64_t{1'000'000} * ranks);
  const std::int64_t wanted =
      std::clamp((model_elements + 7) / 8, smallest, largest);
  return std::max<std::int64_t>(1, std::min(limit, wanted));
}

} // namespace cairn::zero
