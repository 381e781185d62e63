#pragma once

#include <cairn/distributed/process_group.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cairn::distributed {

class Store;

/// Lets the ranks of a group decide something together: each says a text, the
/// group's rank 0 hears them all and answers, everyone gets the answer. It goes
/// through the job's store, on a connection of its own, so a thread beside the
/// training may use it while the group's collectives run.
class Agreement {
 public:
  using Decide = std::function<std::string(const std::vector<std::string>&)>;

  /// Ranks that agree with each other use the same name, and make those of one
  /// name in the same order.
  Agreement(ProcessGroup group, std::string name);
  ~Agreement();

  /// `decide` runs on rank 0, with the texts in the order of ranks; what it
  /// throws there is a CommError elsewhere. Throws CommError naming the ranks
  /// that did not come within `timeout`, or as soon as the job has failed.
  ///
  /// `in_order_with` are groups whose collectives every rank calls either
  /// before this or after it: a rank that has called a later one passed by, and
  /// that is an error at once.
  std::string operator()(
      const std::string& what,
      const std::string& text,
      const Decide& decide,
      std::chrono::milliseconds timeout,
      const std::vector<ProcessGroup>& in_order_with = {});

 private:
  struct Meeting;
  std::string why_absent(int rank, const Meeting& meeting);
  void wait(const std::vector<std::string>& keys, const Meeting& meeting);

  ProcessGroup group_;
  std::string place_;            ///< in the store
  std::unique_ptr<Store> store_; ///< none for a group of one
  std::uint64_t meetings_ = 0;
};

} // namespace cairn::distributed
