#include "nn/attention/sequence_halves.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace cairn::nn {
namespace {

/// The tokens from `begin` to `end` at most whose document is that of the
/// first.
TokenRange same_document(
    std::span<const std::int64_t> first_seen,
    std::int64_t begin,
    std::int64_t end) {
  const auto from = first_seen.begin() + begin;
  const auto other =
      std::partition_point(from, first_seen.begin() + end, [&](std::int64_t x) {
        return x == *from;
      });
  return {begin, other - from};
}

/// The parts of one sample, whose number is left at 0.
std::vector<RingPart> parts_of_sample(
    const RingStep& step,
    const RingPlace& keys,
    std::span<const std::int64_t> first_seen) {
  const std::int64_t begin = step.queries.begin;
  const std::int64_t end = begin + step.queries.size;
  std::vector<RingPart> parts;
  if (step.causal) { // the rank's own keys
    for (std::int64_t i = begin; i < end;) {
      const TokenRange document = same_document(first_seen, i, end);
      parts.push_back({.queries = document, .keys = document, .causal = true});
      i += document.size;
    }
    return parts;
  }
  const TokenRange document = same_document(first_seen, begin, end);
  const std::int64_t from = first_seen[static_cast<std::size_t>(begin)];
  const std::int64_t keys_end = step.keys.begin + step.keys.size;
  const auto all = std::views::iota(step.keys.begin, keys_end);
  const auto first = std::ranges::partition_point(all, [&](std::int64_t key) {
    return keys.position(key) < from;
  });
  const auto seen = static_cast<std::int64_t>(all.end() - first);
  if (seen > 0) {
    parts.push_back({.queries = document, .keys = {keys_end - seen, seen}});
  }
  return parts;
}

} // namespace

std::array<TokenRange, 2> sequence_halves(
    std::int64_t sequence,
    int rank,
    int ranks) {
  const std::int64_t piece = sequence / (2 * ranks);
  return {
      TokenRange{rank * piece, piece},
      TokenRange{(2 * ranks - 1 - rank) * piece, piece}};
}

int ring_owner(int step, int rank, int ranks) {
  return (rank + ranks - step) % ranks;
}

RingStep ring_step(std::int64_t tokens, int rank, int owner) {
  const std::int64_t half = tokens / 2;
  const TokenRange all{0, tokens};
  const TokenRange early{0, half};
  const TokenRange late{half, half};
  if (owner == rank) {
    return {all, all, true};
  }
  // Early pieces are in the order of ranks, late ones in the reverse order.
  return owner < rank ? RingStep{all, early, false}
                      : RingStep{late, all, false};
}

std::int64_t RingPlace::position(std::int64_t token) const {
  const auto [early, late] = sequence_halves(tokens * ranks, rank, ranks);
  return token < early.size ? early.begin + token
                            : late.begin + (token - early.size);
}

std::vector<TokenRange> RingPlace::positions(const TokenRange& range) const {
  const std::int64_t half = tokens / 2;
  const std::int64_t early =
      std::clamp<std::int64_t>(half - range.begin, 0, range.size);
  std::vector<TokenRange> result;
  if (early > 0) {
    result.push_back({position(range.begin), early});
  }
  if (early < range.size) {
    result.push_back({position(range.begin + early), range.size - early});
  }
  return result;
}

std::vector<RingPart> document_parts(
    const RingStep& step,
    const RingPlace& queries,
    const RingPlace& keys,
    std::span<const std::int64_t> first_seen) {
  const auto tokens = static_cast<std::size_t>(queries.tokens);
  std::vector<RingPart> result;
  std::vector<RingPart> last; // of the samples before, which may be alike
  std::size_t begun = 0;      // where those are in the result
  for (std::size_t at = 0; at < first_seen.size(); at += tokens) {
    const auto sample = static_cast<std::int64_t>(at / tokens);
    std::vector<RingPart> parts =
        parts_of_sample(step, keys, first_seen.subspan(at, tokens));
    if (sample > 0 && parts == last) {
      for (std::size_t i = begun; i < result.size(); ++i) {
        ++result[i].samples.size;
      }
      continue;
    }
    begun = result.size();
    for (RingPart part : parts) {
      part.samples = {sample, 1};
      result.push_back(part);
    }
    last = std::move(parts);
  }
  return result;
}

} // namespace cairn::nn
