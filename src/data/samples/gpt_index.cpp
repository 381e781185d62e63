#include <cairn/data/gpt_index.h>

#include "base/internal/large_buffer.h"
#include "base/internal/numpy_random.h"

#include <algorithm>
#include <array>
#include <future>
#include <limits>
#include <numeric>

namespace cairn::data {
namespace {

constexpr std::size_t stretch = 16384;

/// A document and its length, shuffled together. Swapping pairs waits for the
/// same two places in memory as swapping documents alone, and the lengths are
/// then in document order, in a row instead of scattered.
struct alignas(8) Entry {
  std::int32_t document;
  std::int32_t length;
};

/// The documents of all epochs, in their original order.
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

/// Calls shuffle(first, count) for each stretch that is shuffled by itself:
/// everything, or the last epoch apart from the rest.
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

/// Cuts the stream of documents into samples; writes where each sample begins
/// and where the last one ends. On entry `order` holds documents and lengths
/// alternately; on return its first half holds the documents alone.
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
  // document that holds the token. Without an extra token, a document that ends
  // just before the token counts as holding it.
  std::size_t sample = 1; // the next to find; the first begins at 0, 0
  const std::int64_t step = request.sequence_length;
  std::int64_t ahead = step; // its first token, as an offset in the document
  std::size_t at = 0;
  for (; at < count && sample <= samples; ++at) {
    // The last offset at which a sample can begin in this document.
    const std::int64_t latest = order[2 * at + 1] - extra;
    order[at] = order[2 * at];
    const auto write = [&] {
      out[2 * sample] = static_cast<T>(at);
      out[2 * sample + 1] = static_cast<T>(ahead);
    };
    // Writes all samples but the last that begin here: none, unless documents
    // are long.
    for (; ahead + step <= latest && sample < samples; ahead += step) {
      write();
      ++sample;
    }
    // The beginning of one more sample is unpredictable here: always write it,
    // and advance only if it does begin, without a branch.
    write();
    const std::int64_t begins = ahead <= latest;
    sample += static_cast<std::size_t>(begins);
    ahead += (-begins & step) - (latest + extra);
  }
  if (sample == samples) { // the last sample will be padded
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
  // Both orders come from one generator but are otherwise independent, and
  // drawing is a small part of the work. So the second order starts on its own
  // thread after skipping the draws of the first.
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
