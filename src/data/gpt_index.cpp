#include <cairn/data/gpt_index.h>

#include <cairn/base/large_buffer.h>
#include <cairn/base/numpy_random.h>

#include <algorithm>
#include <array>
#include <future>
#include <limits>
#include <numeric>

namespace cairn::data {
namespace {

constexpr std::size_t stretch = 16384;

/// A document and its length go through the shuffle together. Swapping them
/// waits for the same two places in memory as swapping documents alone, and
/// whoever needs the lengths in the order of documents then finds them in a
/// row, not all over.
struct alignas(8) Entry {
  std::int32_t document;
  std::int32_t length;
};

/// Documents of all epochs, in their own order.
LargeBuffer list_documents(
    const GptIndexRequest& request,
    const GptIndexPlan& plan,
    const LengthReader& read_lengths) {
  const auto count = static_cast<std::size_t>(request.documents.size());
  const auto epochs = static_cast<std::size_t>(plan.epochs);
  LargeBuffer buffer(count * epochs * sizeof(Entry));
  const auto entries = buffer.as<Entry>();
  std::array<std::int32_t, stretch> lengths;
  for (std::size_t at = 0; at < count;) {
    const auto part =
        std::span(lengths).first(std::min(lengths.size(), count - at));
    const auto first = static_cast<std::size_t>(request.documents.begin) + at;
    read_lengths(first, part);
    for (std::size_t i = 0; i < part.size(); ++i) {
      entries[at + i] = {static_cast<std::int32_t>(first + i), part[i]};
    }
    at += part.size();
  }
  for (std::size_t epoch = 1; epoch < epochs; ++epoch) {
    std::ranges::copy(
        entries.first(count),
        entries.subspan(epoch * count).begin());
  }
  return buffer;
}

/// Calls shuffle(first, count) for each stretch of an order that is shuffled by
/// itself: the last epoch may be one.
template <typename Shuffle>
void for_each_stretch(
    const GptIndexPlan& plan,
    std::size_t all,
    std::size_t before_last_epoch,
    Shuffle&& shuffle) {
  const std::size_t first = plan.separate_last_epoch ? before_last_epoch : all;
  shuffle(std::size_t{0}, first);
  shuffle(first, all - first);
}

/// Cuts the stream of documents into samples; writes where each begins, and
/// where the last one ends. `order` has a document and its length in turn, and
/// is left with the documents alone in its first half.
template <typename T>
LargeBuffer cut_samples(
    const GptIndexRequest& request,
    const GptIndexPlan& plan,
    std::span<std::int32_t> order) {
  const std::int64_t extra = request.extra_token ? 1 : 0;
  const auto count = order.size() / 2;
  const auto samples = static_cast<std::size_t>(plan.samples);
  const std::int64_t last_length = order.back();
  LargeBuffer buffer((samples + 1) * 2 * sizeof(T));
  T* const out = buffer.as<T>().data();
  // Sample k begins at token k * sequence_length of the stream, in the first
  // document that has the token (without an extra one: that ends there).
  std::size_t sample = 1; // the next to find; the first begins at 0, 0
  const std::int64_t step = request.sequence_length;
  std::int64_t ahead = step; // its first token, counted from the document's
  std::size_t at = 0;
  for (; at < count && sample <= samples; ++at) {
    // Where a sample that begins here has its first token at the latest.
    const std::int64_t latest = order[2 * at + 1] - extra;
    order[at] = order[2 * at];
    const auto write = [&] {
      out[2 * sample] = static_cast<T>(at);
      out[2 * sample + 1] = static_cast<T>(ahead);
    };
    // All but the last that begin here: none, unless documents are long.
    for (; ahead + step <= latest && sample < samples; ahead += step) {
      write();
      ++sample;
    }
    // Whether one more does cannot be foreseen: write it, do not branch.
    write();
    const std::int64_t begins = ahead <= latest;
    sample += static_cast<std::size_t>(begins);
    ahead += (-begins & step) - (latest + extra);
  }
  if (sample == samples) { // the last one is to be padded
    out[2 * sample] = static_cast<T>(count - 1);
    out[2 * sample + 1] = static_cast<T>(last_length - extra);
  }
  for (; at < count; ++at) {
    order[at] = order[2 * at];
  }
  return buffer;
}

template <typename T>
IndexArray order_samples(const GptIndexPlan& plan, NumpyRandom random) {
  const auto count = static_cast<std::size_t>(plan.samples);
  LargeBuffer buffer(count * sizeof(T));
  const auto order = buffer.as<T>();
  std::iota(order.begin(), order.end(), T{0});
  for_each_stretch(
      plan,
      count,
      static_cast<std::size_t>(plan.samples_before_last_epoch),
      [&](std::size_t first, std::size_t size) {
        random.shuffle(order.subspan(first, size));
      });
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
  const auto count = static_cast<std::size_t>(request.documents.size());
  const auto all = count * static_cast<std::size_t>(plan.epochs);
  const auto for_each_document_stretch = [&](auto&& shuffle) {
    for_each_stretch(plan, all, all - count, shuffle);
  };
  // The two orders come from one generator, but need nothing else of each
  // other, and drawing is little of the work: the second one starts when the
  // draws of the first are done once without their swaps.
  auto shuffle = std::async(std::launch::async, [&] {
    NumpyRandom random(request.seed);
    for_each_document_stretch(
        [&](std::size_t, std::size_t size) { random.skip_shuffle(size); });
    constexpr std::int64_t narrow =
        std::numeric_limits<std::uint32_t>::max() - 1;
    return plan.samples < narrow ? order_samples<std::uint32_t>(plan, random)
                                 : order_samples<std::int64_t>(plan, random);
  });

  LargeBuffer documents = list_documents(request, plan, read_lengths);
  NumpyRandom random(request.seed);
  for_each_document_stretch([&](std::size_t first, std::size_t size) {
    random.shuffle(documents.as<Entry>().subspan(first, size));
  });
  const auto samples = [&]<typename T>(T) {
    const LargeBuffer buffer =
        cut_samples<T>(request, plan, documents.as<std::int32_t>());
    return IndexArray(
        std::span<const T>(buffer.as<T>()),
        {static_cast<std::size_t>(plan.samples + 1), 2},
        buffer.owner());
  };
  GptIndex index;
  const bool wide =
      request.wide_samples || all > std::numeric_limits<std::int32_t>::max();
  index.samples = wide ? samples(std::int64_t{}) : samples(std::int32_t{});
  documents.shrink(all * sizeof(std::int32_t));
  index.documents = IndexArray(
      std::span<const std::int32_t>(documents.as<std::int32_t>()),
      {all},
      documents.owner());
  index.shuffle = shuffle.get();
  return index;
}

} // namespace cairn::data
