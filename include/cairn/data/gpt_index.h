#pragma once

#include <cairn/data/index_array.h>
#include <cairn/data/split.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace cairn::data {

/// What the order of a GPT dataset depends on, besides the documents' lengths.
struct GptIndexRequest {
  ElementRange documents{};
  std::optional<std::int64_t> samples{}; ///< at least; none: one epoch
  std::int64_t sequence_length = 0;
  std::uint32_t seed = 1234;
  /// Samples overlap by a token, so that the last one has a label.
  bool extra_token = true;
  /// Leave out what is too short for a sample at the very end.
  bool drop_last = true;
  /// int64 for the sample index whatever its size, as Megatron-DeepSpeed has
  /// it.
  bool wide_samples = false;
};

/// How large it will be.
struct GptIndexPlan {
  std::int64_t tokens_per_epoch = 0;
  std::int64_t epochs = 1;
  std::int64_t samples = 0;
  /// The last epoch is shuffled by itself when less than 80% of it is asked
  /// for: otherwise samples of it would take the place of others'.
  bool separate_last_epoch = false;
  std::int64_t samples_before_last_epoch = 0; ///< counts if it is separate

  /// Throws DataError for what no index can be made of: documents without
  /// tokens, a sequence of one token, more epochs than memory can hold.
  static GptIndexPlan make(
      const GptIndexRequest& request,
      std::int64_t tokens_per_epoch);

  std::size_t bytes(const GptIndexRequest& request) const; ///< of the arrays
  bool operator==(const GptIndexPlan&) const = default;
};

/// Megatron's three arrays. Sample i of the dataset is sample s = shuffle[i] in
/// the stream of documents[0], documents[1], …: from token samples[s][1] of the
/// document at samples[s][0] up to where s + 1 begins.
struct GptIndex {
  IndexArray documents; ///< int32 [epochs * documents]
  IndexArray samples;   ///< int32 or int64 [samples + 1, 2]
  IndexArray shuffle;   ///< uint32 or int64 [samples]

  /// Reads everything: for agreement between ranks.
  std::uint64_t checksum() const;
};

/// Copies the lengths of documents first, first + 1, … into `out`; perhaps on
/// another thread than the caller's.
using LengthReader =
    std::function<void(std::size_t first, std::span<std::int32_t> out)>;

std::int64_t count_tokens(
    ElementRange documents,
    const LengthReader& read_lengths);

/// Array for array what Megatron builds with this request, in linear time; on
/// two threads where there is work for them.
GptIndex build_gpt_index(
    const GptIndexRequest& request,
    const GptIndexPlan& plan,
    const LengthReader& read_lengths);

} // namespace cairn::data
