#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>

#include <cstdint>
#include <vector>

// Heads of keys and values that are fewer than the ranks of a tensor parallel
// group. The weights of such a head and of its queries are cut evenly over the
// ranks that share it, as all weights are: no rank holds another's weights. The
// ranks exchange what they computed, so that each has the key and the value and
// its own queries.

namespace cairn::nn {

/// A head of keys and values and its queries, as consecutive ranks share it.
/// The columns of a token are those of all queries, then the key, then the
/// value; each rank computes an equal share of them, in that order.
struct SharedHead {
  int ranks = 1;                      ///< that share the head
  std::int64_t query_columns = 0;     ///< that each of them uses
  std::int64_t key_value_columns = 0; ///< that all of them use

  std::int64_t columns_computed() const {
    return (ranks * query_columns + key_value_columns) / ranks;
  }
  std::int64_t columns_used() const {
    return query_columns + key_value_columns;
  }
};

/// Neighbouring columns that one rank computes and one rank uses.
struct HeadStretch {
  int computed_by = 0;
  int used_by = 0;
  std::int64_t computed_at = 0; ///< first column, among those computed there
  std::int64_t used_at = 0;     ///< the same column, among those used there
  std::int64_t columns = 0;

  bool operator==(const HeadStretch&) const = default;
};

/// All stretches of a head. Those between two ranks are in the order of their
/// columns.
std::vector<HeadStretch> head_stretches(const SharedHead& head);

/// Turns the columns that this rank computed, [batch, sequence, computed], into
/// those that it uses. The gradient of a column is the sum over the ranks that
/// use it, in their order. Returns `x` where no rank shares a head.
at::Tensor exchange_head(
    const at::Tensor& x,
    const SharedHead& head,
    const distributed::ProcessGroup& group);

} // namespace cairn::nn
