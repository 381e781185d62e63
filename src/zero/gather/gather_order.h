#pragma once

#include <c10/core/Event.h>
#include <cairn/distributed/process_group.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::zero {

/// What to do about ranks that use different parameters.
constexpr std::string_view same_operators =
    "all ranks run the same operators on parameters in the same order: let "
    "branches depend on values that all ranks share, and do what one rank does "
    "alone on all of them";

/// The order in which a rank has gathered buckets since the ranks compared
/// their orders last. Ranks whose orders differ have computed with parts of
/// different parameters: a library that moves what it is given does not notice
/// if the sizes are the same.
class GatherOrder {
 public:
  /// Notes a gather, and the parameter that was wanted.
  void note(int bucket, int parameter);

  /// Sends this rank's order, in a word, to the others. Every rank of the group
  /// calls it.
  void send(const distributed::ProcessGroup& group, at::Device device);
  /// Compares the orders that were sent, and forgets this rank's. Throws on
  /// every rank CommError with the first difference if they are not the same.
  /// On a GPU the comparison is looked at one call later, so that the host does
  /// not wait for it.
  void compare(const std::function<std::string(int parameter)>& name_of);

 private:
  /// Gathers that are kept for the message.
  static constexpr std::size_t most_kept = 4096;

  struct Gathers {
    std::vector<int> buckets;
    std::vector<int> parameters; ///< the one that was wanted, of each bucket
  };

  struct Sent {
    distributed::ProcessGroup group;
    at::Tensor largest;
    distributed::Pending pending;
  };

  /// A comparison on its way from a GPU.
  struct Arriving {
    distributed::ProcessGroup group;
    at::Tensor largest; ///< on the host
    c10::Event arrived;
    Gathers gathers;
  };

  std::uint64_t word_ = 0;
  Gathers gathers_;
  std::optional<Sent> sent_;
  std::optional<Arriving> arriving_;
};

} // namespace cairn::zero
