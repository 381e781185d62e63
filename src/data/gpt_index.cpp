#include <cairn/data/gpt_index.h>

#include "data/large_buffer.h"

#include <cairn/base/numpy_random.h>

#include <algorithm>
#include <array>
#include <future>
#include <limits>
#include <numeric>

namespace cairn::data {
namespace {

constexpr std::size_t stretch = 16384;

/// The documents of all epochs, shuffled, with or without the last one.
LargeBuffer order_documents(
    const GptIndexRequest& request,
    const GptIndexPlan& plan,
    NumpyRandom& random) {
  const auto count = static_cast<std::size_t>(request.documents.size());
  const auto epochs = static_cast<std::size_t>(plan.epochs);
  LargeBuffer buffer(count * epochs * sizeof(std::int32_t));
  const auto order = buffer.as<std::int32_t>();
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    const auto part = order.subspan(epoch * count, count);
    std::iota(
        part.begin(),
        part.end(),
        static_cast<std::int32_t>(request.documents.begin));
  }
  if (plan.separate_last_epoch) {
    random.shuffle(order.first(count * (epochs - 1)));
    random.shuffle(order.last(count));
  } else {
    random.shuffle(order);
  }
  return buffer;
}

/// Cuts the stream of documents into samples; writes where each begins, and
/// where the last one ends.
template <typename T>
LargeBuffer cut_samples(
    const GptIndexRequest& request,
    const GptIndexPlan& plan,
    std::span<const std::int32_t> order,
    std::span<const std::int32_t> lengths) {
  // Lengths are looked up all over: far enough ahead for one to come from
  // memory, and no further.
  constexpr std::size_t ahead = 32;
  const std::int64_t extra = request.extra_token ? 1 : 0;
  const std::size_t last = order.size() - 1;
  const auto length_of = [&](std::size_t at) -> const std::int32_t& {
    return lengths[static_cast<std::size_t>(
        order[at] - request.documents.begin)];
  };
  LargeBuffer buffer(
      static_cast<std::size_t>(plan.samples + 1) * 2 * sizeof(T));
  T* out = buffer.as<T>().data();
  std::size_t at = 0;
  std::int64_t offset = 0;
  std::int64_t length = length_of(0);
  const auto record = [&] {
    *out++ = static_cast<T>(at);
    *out++ = static_cast<T>(offset);
  };
  record();
  for (std::int64_t sample = 0; sample < plan.samples; ++sample) {
    std::int64_t missing = request.sequence_length + extra;
    for (;;) {
      if (length - offset >= missing) {
        offset += missing - extra;
        break;
      }
      if (at == last) { // the last sample, to be padded
        offset = length - extra;
        break;
      }
      missing -= length - offset;
      ++at;
      offset = 0;
      length = length_of(at);
      __builtin_prefetch(&length_of(std::min(at + ahead, last)));
    }
    record();
  }
  return buffer;
}

template <typename T>
IndexArray order_samples(const GptIndexPlan& plan, NumpyRandom random) {
  const auto count = static_cast<std::size_t>(plan.samples);
  LargeBuffer buffer(count * sizeof(T));
  const auto order = buffer.as<T>();
  std::iota(order.begin(), order.end(), T{0});
  if (plan.separate_last_epoch) {
    const auto before =
        static_cast<std::size_t>(plan.samples_before_last_epoch);
    random.shuffle(order.first(before));
    random.shuffle(order.subspan(before));
  } else {
    random.shuffle(order);
  }
  return IndexArray(std::span<const T>(order), {count}, buffer.owner());
}

} // namespace

std::uint64_t GptIndex::checksum() const {
  const std::array<std::uint32_t, 3> parts{
      documents.checksum(),
      samples.checksum(),
      shuffle.checksum()};
  std::uint64_t sum = 0;
  for (const std::uint32_t part : parts) {
    sum = sum * 0x9e3779b97f4a7c15 + part;
  }
  return sum;
}

std::int64_t count_tokens(
    ElementRange documents,
    const LengthReader& read_lengths) {
  std::array<std::int32_t, stretch> lengths;
  std::int64_t tokens = 0;
  for (std::int64_t at = documents.begin; at < documents.end;) {
    const auto part = std::span(lengths).first(static_cast<std::size_t>(
        std::min<std::int64_t>(stretch, documents.end - at)));
    read_lengths(static_cast<std::size_t>(at), part);
    tokens += std::accumulate(part.begin(), part.end(), std::int64_t{0});
    at += static_cast<std::int64_t>(part.size());
  }
  return tokens;
}

GptIndex build_gpt_index(
    const GptIndexRequest& request,
    const GptIndexPlan& plan,
    const LengthReader& read_lengths) {
  // On huge pages, unlike a mapped file. Shuffling does without them.
  auto lengths_copied = std::async(std::launch::async, [&] {
    LargeBuffer buffer(
        static_cast<std::size_t>(request.documents.size()) *
        sizeof(std::int32_t));
    read_lengths(
        static_cast<std::size_t>(request.documents.begin),
        buffer.as<std::int32_t>());
    return buffer;
  });
  NumpyRandom random(request.seed);
  const LargeBuffer documents = order_documents(request, plan, random);
  const std::span<const std::int32_t> order = documents.as<std::int32_t>();

  // The two orders come from one generator, but need nothing else of each
  // other.
  auto shuffle = std::async(std::launch::async, [&plan, random] {
    constexpr std::int64_t narrow =
        std::numeric_limits<std::uint32_t>::max() - 1;
    return plan.samples < narrow ? order_samples<std::uint32_t>(plan, random)
                                 : order_samples<std::int64_t>(plan, random);
  });

  const LargeBuffer lengths_buffer = lengths_copied.get();
  const auto lengths = lengths_buffer.as<std::int32_t>();
  const auto samples = [&]<typename T>(T) {
    const LargeBuffer buffer = cut_samples<T>(request, plan, order, lengths);
    return IndexArray(
        std::span<const T>(buffer.as<T>()),
        {static_cast<std::size_t>(plan.samples + 1), 2},
        buffer.owner());
  };
  GptIndex index;
  index.documents = IndexArray(order, {order.size()}, documents.owner());
  index.samples = order.size() <= std::numeric_limits<std::int32_t>::max()
      ? samples(std::int32_t{})
      : samples(std::int64_t{});
  index.shuffle = shuffle.get();
  return index;
}

} // namespace cairn::data
