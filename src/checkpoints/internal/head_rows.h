#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/model/description.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::checkpoints {

// Reordering of the rows in joined query, key and value weights. A "group" is
// one key/value head with its queries; model/parameters.h has our order.

/// Numbers of rows of the queries, the key and the value of one group.
std::vector<std::int64_t> query_key_value_rows(
    const model::ModelDescription& d);

/// Numbers of rows of the key and the value of one group.
std::vector<std::int64_t> key_value_rows(const model::ModelDescription& d);

/// Reorders all queries, all keys, all values into group after group.
LazyTensor heads_together(
    LazyTensor tensor,
    const std::vector<std::int64_t>& rows,
    std::int64_t groups);

/// The reverse of heads_together().
LazyTensor heads_apart(
    LazyTensor tensor,
    const std::vector<std::int64_t>& rows,
    std::int64_t groups);

/// Reorders rows that take turns within a head (query, key, value, query, …)
/// into part after part. Each part of a head has `head_size` rows.
LazyTensor heads_from_turns(
    LazyTensor tensor,
    std::int64_t parts,
    std::int64_t head_size);

} // namespace cairn::checkpoints
