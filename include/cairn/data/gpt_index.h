#pragma once

#include <cairn/data/data_selection.h>
#include <cairn/data/index_array.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace cairn::data {

/// Everything that decides the order of a GPT dataset, except the lengths of
/// the documents.
struct GptIndexRequest {
  ElementRange documents{};
  std::optional<std::int64_t> samples{}; ///< at least; empty: one epoch
  std::int64_t sequence_length = 0;
  std::uint32_t seed = 1234;
  /// Lets samples overlap by one token, so that the last token has a label.
  bool extra_token = true;
  /// Drops the remainder at the very end that is too short for a sample.
  bool drop_last = true;
  /// Stores the sample index as int64 whatever its size, as Megatron-DeepSpeed
  /// does.
  bool wide_samples = false;
};

/// The size of an index.
struct GptIndexPlan {
  std::int64_t tokens_per_epoch = 0;
  std::int64_t epochs = 1;
  std::int64_t samples = 0;
  /// True when less than 80% of the last epoch is needed: the last epoch is
  /// then shuffled by itself. Otherwise its samples would replace samples of
  /// other epochs.
  bool separate_last_epoch = false;
  std::int64_t samples_before_last_epoch = 0; ///< used only when it is separate

  /// Throws DataError if no index can be made: documents without tokens, a
  /// sequence of one token, or more epochs than memory can hold.
  static GptIndexPlan make(
      const GptIndexRequest& request,
      std::int64_t tokens_per_epoch);

  /// Size of the arrays.
  std::size_t bytes(const GptIndexRequest& request) const;
  bool operator==(const GptIndexPlan&) const = default;
};

/// Megatron's three arrays. Sample i of the dataset is sample s = shuffle[i] of
/// the stream documents[0], documents[1], …: it runs from token samples[s][1]
/// of the document at samples[s][0] to where sample s + 1 begins.
struct GptIndex {
  IndexArray documents; ///< int32 [epochs * documents]
  IndexArray samples;   ///< int32 or int64 [samples + 1, 2]
  IndexArray shuffle;   ///< uint32 or int64 [samples]

  /// Checksum of all values, to compare between ranks.
  std::uint64_t checksum() const;
};

/// Copies the lengths of documents first, first + 1, … into `out`. May be
/// called on another thread than the caller's.
using LengthReader =
    std::function<void(std::size_t first, std::span<std::int32_t> out)>;

std::int64_t count_tokens(
    ElementRange documents,
    const LengthReader& read_lengths);

/// Builds the arrays that Megatron builds for this request, in linear time; on
/// two threads where there is work for both.
GptIndex build_gpt_index(
    const GptIndexRequest& request,
    const GptIndexPlan& plan,
    const LengthReader& read_lengths);

} // namespace cairn::data
