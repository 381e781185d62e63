#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace cairn::zero {

/// A parameter as the layout sees it.
struct ParameterSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  int group = 0;         ///< optimizer group: sets lr and weight decay
  bool trainable = true; ///< false: has neither gradient nor optimizer state
  /// Kind of the parameter: different kinds do not share a bucket.
  int kind = 0;
  /// True for a parameter that only `expert_world` ranks share. It does not
  /// share a bucket with the parameters of all ranks.
  bool expert = false;
  std::int64_t elements() const;
};

struct LayoutOptions {
  int world = 1;        ///< ranks that share the parameters
  int expert_world = 1; ///< ranks that share the parameters of experts
  /// Most elements of a bucket, unless a single parameter is larger.
  std::int64_t bucket_elements = 16'000'000;
  /// Size below which parameters go into buckets of their own, which stay whole
  /// on every rank (stage 3's persistence threshold).
  std::int64_t persistent_below = 0;
  /// Most elements that the persistent parameters may have together.
  std::int64_t persistent_total = std::numeric_limits<std::int64_t>::max();
  /// Parameters and shards begin at multiples of this number of elements.
  std::int64_t alignment = 64;
};

/// The stretch [begin, end) of something flat.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// A whole parameter in a bucket.
struct Placement {
  int parameter = 0;
  std::int64_t offset = 0; ///< in the bucket
  std::int64_t elements = 0;
  bool operator==(const Placement&) const = default;
};

/// The part of a parameter that one rank owns.
struct Slice {
  int parameter = 0;
  Range in_parameter;
  std::int64_t offset = 0; ///< in the bucket
  Range in_bucket() const { return {offset, offset + in_parameter.size()}; }
  bool operator==(const Slice&) const = default;
};

/// Elements of one parameter group that lie next to each other in a shard.
struct Segment {
  int group = 0;
  Range in_bucket;
  bool operator==(const Segment&) const = default;
};

/// Parameters that travel together: reduced, updated and gathered at once.
struct Bucket {
  std::vector<Placement> members; ///< by offset; those of a group adjoin
  std::int64_t elements = 0;      ///< padding included: shards are equal
  bool trainable = true;
  bool persistent = false;
  bool expert = false;
};

/// The ownership of parameters: they are laid into flat buckets, each cut into
/// one equal shard per rank. It is made from names, shapes and numbers only.
/// The reducer, the optimizer, checkpoints and the planner all read it, so a
/// simulated world of 1024 ranks and a real one of two cannot disagree.
///
/// Buckets of all kinds come in the order in which backward finishes them: the
/// last parameters first, the untrained ones at the end. Ranks that share
/// parameters (of experts or not) have the same order.
class Layout {
 public:
  /// Throws UsageError for options that make no sense.
  Layout(std::vector<ParameterSpec> parameters, const LayoutOptions& options);

  int world() const { return options_.world; }
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  /// Number of ranks that share a bucket.
  int world_of(const Bucket& bucket) const {
    return bucket.expert ? options_.expert_world : options_.world;
  }
  int bucket_of(int parameter) const;
  const Placement& placement_of(int parameter) const;

  /// The part of a bucket that `rank` owns; the rank counts among the ranks
  /// that share the bucket.
  Range shard(int bucket, int rank) const;
  /// The parameters in a stretch of a bucket. Padding belongs to none of them.
  std::vector<Slice> slices(int bucket, Range range) const;
  std::vector<Slice> slices(int bucket, int rank) const {
    return slices(bucket, shard(bucket, rank));
  }
  /// A stretch of a bucket, cut by parameter groups. Padding inside counts to
  /// the group before it, since it is harmless to update.
  std::vector<Segment> segments(int bucket, Range range) const;

  /// Elements of all parameters.
  std::int64_t elements() const;
  /// Elements of all buckets, padding included.
  std::int64_t padded_elements() const;

  /// A table for people: buckets, sizes, members, padding.
  std::string describe() const;

 private:
  struct Home {
    int bucket = 0;
    int member = 0;
  };
  void place(const std::vector<int>& order, bool trainable, bool persistent);
  void sort_buckets();

  std::vector<ParameterSpec> parameters_;
  LayoutOptions options_;
  std::vector<Bucket> buckets_;
  std::vector<Home> homes_; ///< by parameter
};

/// Bucket size: large enough to use the wire well, small enough that the first
/// reduction starts while backward still runs and that few parameters are live
/// at once. It is an eighth of the model, at least 1 million elements, at most
/// 16 million or, among many ranks, a million for each of them (Megatron's
/// rule: smaller messages waste the wire), and no more than the user's limit.
std::int64_t bucket_capacity(
    std::int64_t model_elements,
    std::int64_t limit,
    int ranks);

} // namespace cairn::zero
