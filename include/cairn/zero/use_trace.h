#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace cairn::zero {

/// The order in which a pass uses the buckets. What is noted in one pass
/// predicts the next; where the next goes another way, the prediction waits
/// until it meets the old way again.
class UseTrace {
 public:
  /// `elements` of each bucket: distances are counted in them.
  explicit UseTrace(std::vector<std::int64_t> elements);

  /// Uses of the bucket that was used last are not noted again.
  void note(int bucket);
  /// The pass is over: what it noted is the prediction from now on.
  void finish_pass();

  bool predicts() const { return !predicted_.empty(); }
  /// Whether this pass went another way than predicted.
  bool strayed() const { return strayed_; }

  /// Elements of other buckets that are used before this one is used again;
  /// none: not in this pass, or not known.
  std::optional<std::int64_t> distance_to(int bucket) const;

  /// Buckets to be used next, each once, soonest first, whose elements together
  /// stay within `limit`.
  std::vector<int> upcoming(std::int64_t limit) const;

 private:
  std::vector<std::int64_t> elements_;
  std::vector<int> noted_;
  std::vector<int> predicted_;
  std::vector<std::int64_t> elements_before_;   ///< of each predicted use
  std::vector<std::vector<std::int64_t>> uses_; ///< of each bucket, as places
  std::int64_t place_ = 0;                      ///< in predicted_: the next use
  bool strayed_ = false;
};

} // namespace cairn::zero
