#pragma once

#include <cairn/distributed/process_group.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::generate {

/// The ways of numbers between the ranks that share a model. By default there
/// is one rank.
class RankLinks {
 public:
  RankLinks() = default;
  /// `tensor`: the ranks that share every layer of this stage; `stages`: the
  /// ranks of the same place in every stage, the first one first.
  RankLinks(distributed::ProcessGroup tensor, distributed::ProcessGroup stages);

  bool shares_layers() const { return shares_layers_; }
  /// Sums numbers over the ranks that share a layer, in place.
  void sum(std::span<float> numbers) const;
  /// The numbers of all ranks that share a layer, one rank's after another's.
  void gather(std::span<float> own, std::span<float> all) const;

  void to_next_stage(std::span<float> numbers) const;
  void from_previous_stage(std::span<float> numbers) const;
  void to_first_stage(std::span<float> numbers) const;
  void from_last_stage(std::span<float> numbers) const;

 private:
  distributed::ProcessGroup tensor_{};
  distributed::ProcessGroup stages_{};
  bool shares_layers_ = false;
};

} // namespace cairn::generate
