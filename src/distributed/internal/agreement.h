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

namespace detail {
struct GroupCore;
}

/// Lets the ranks of a group decide something together. Each rank says a text,
/// the group's rank 0 hears all texts and answers, and every rank gets that
/// answer. The texts go through the job's store, on a connection of their own,
/// so a thread beside the training may use an Agreement while the group's
/// collectives run.
class Agreement {
 public:
  using Decide = std::function<std::string(const std::vector<std::string>&)>;

  /// Ranks that agree with each other use the same `name`. Every rank makes its
  /// agreements of one name in the same order.
  Agreement(ProcessGroup group, std::string name);
  ~Agreement();

  /// Returns what `decide` returned on rank 0, where it runs with the texts in
  /// the order of ranks. An exception from `decide` is a CommError on the other
  /// ranks. Throws CommError naming the ranks that did not come within
  /// `timeout`, and at once when the job has failed.
  ///
  /// `in_order_with` are groups whose collectives every rank calls either
  /// before this meeting or after it. A rank that has already called a later
  /// collective has passed the meeting by: that is an error at once.
  std::string operator()(
      const std::string& what,
      const std::string& text,
      const Decide& decide,
      std::chrono::milliseconds timeout,
      const std::vector<ProcessGroup>& in_order_with = {});

  /// The state that copies of a group share, for functions that make groups and
  /// are no part of a group's interface.
  static const std::shared_ptr<detail::GroupCore>& core_of(
      const ProcessGroup& group) {
    return group.core_;
  }

 private:
  struct Meeting;
  std::string why_absent(int rank, const Meeting& meeting);
  void wait(const std::vector<std::string>& keys, const Meeting& meeting);

  ProcessGroup group_;
  /// Prefix of this agreement's keys in the store.
  std::string place_;
  std::unique_ptr<Store> store_; ///< null for a group of one
  std::uint64_t meetings_ = 0;
};

} // namespace cairn::distributed
