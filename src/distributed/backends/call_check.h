#pragma once

#include "distributed/backends/group_core.h"
#include "distributed/watch/flight_recorder.h"

#include <cairn/distributed/reduce_op.h>

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::distributed {

/// The place of a call: `train.cpp:88`.
std::string site_text(const std::source_location& site);

/// A call as the flight recorder keeps it, with the size of its message.
struct CheckedCall : CollectiveRecord {
  std::int64_t message = 0; ///< bytes, see message_bytes()
};

/// Refuses arguments that no backend could make sense of, with a message that
/// names rank, group, operation, place and values. The checks are the same on
/// every backend, so that a program which runs on one rank runs on many.
class CallCheck {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Counts = std::vector<std::int64_t>;

  CallCheck(
      const detail::GroupCore& core,
      std::string operation,
      const std::source_location& site);

  void tensors(const Tensors& tensors) const;
  void reducible(const Tensors& tensors, ReduceOp op) const;
  /// Requires that dim 0 can be cut into one part per rank.
  void divisible(const at::Tensor& x) const;
  /// Requires that `whole` has the elements of `part` once per rank.
  void shares(
      const at::Tensor& whole,
      const at::Tensor& part,
      std::string_view whole_name,
      std::string_view part_name) const;
  void counts(const Counts& counts, std::string_view name) const;
  void rows(const at::Tensor& x, std::int64_t rows, std::string_view name)
      const;
  void member(int rank, std::string_view name) const;
  void other_member(int rank, std::string_view name) const;
  /// Requires that `ranks` are members, this rank among them, each once.
  /// Returns them as ranks of the world.
  std::vector<int> own_part(const std::vector<int>& ranks) const;

  [[noreturn]] void refuse(std::string what, std::string remedy = "") const;

  /// The call as the flight recorder keeps it. `counts` replace the sizes where
  /// ranks bring different sizes by agreement.
  CheckedCall record(
      const Tensors& tensors,
      std::string_view detail,
      const Counts& counts = {}) const;

 private:
  const detail::GroupCore& core_;
  std::string operation_;
  std::string site_;
};

} // namespace cairn::distributed
