#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace cairn::zero {

/// The order in which a pass uses the buckets. The order noted in one pass
/// predicts the next pass. Where the next pass goes another way, the prediction
/// waits until it meets the old way again.
class UseTrace {
 public:
  /// `elements` has the size of each bucket, in which distances are counted.
  explicit UseTrace(std::vector<std::int64_t> elements);

  /// Notes a use. Repeated uses of the bucket that was used last are not noted.
  void note(int bucket);
  /// Ends the pass: its notes are the prediction from now on.
  void finish_pass();

  bool predicts() const { return !predicted_.empty(); }
  /// True when this pass went another way than predicted.
  bool strayed() const { return strayed_; }

  /// Elements of other buckets that are used before this one is used again;
  /// nullopt when it is not used in this pass, or when that is not known.
  std::optional<std::int64_t> distance_to(int bucket) const;

  /// Buckets to be used next, each once, soonest first. Their elements together
  /// stay within `limit`.
  std::vector<int> upcoming(std::int64_t limit) const;

 private:
  std::vector<std::int64_t> elements_;
  std::vector<int> noted_;
  std::vector<int> predicted_;
  std::vector<std::int64_t> elements_before_; ///< before each predicted use
  /// Places in predicted_ of each bucket's uses.
  std::vector<std::vector<std::int64_t>> uses_;
  std::int64_t place_ = 0; ///< next use in predicted_
  bool strayed_ = false;
};

} // namespace cairn::zero
