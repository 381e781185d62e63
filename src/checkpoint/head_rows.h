#pragma once

#include <cairn/checkpoint/lazy_tensor.h>
#include <cairn/checkpoint/model_description.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::checkpoints {

// The rows of joined query, key and value weights, per key/value head ("group")
// as model_parameters.h orders them.

/// Rows of the queries, the key and the value of one group.
std::vector<std::int64_t> query_key_value_rows(const ModelDescription& d);

/// Rows of the key and the value of one group.
std::vector<std::int64_t> key_value_rows(const ModelDescription& d);

/// From all queries, all keys, all values to group after group.
LazyTensor heads_together(
    LazyTensor tensor,
    const std::vector<std::int64_t>& rows,
    std::int64_t groups);

/// And back.
LazyTensor heads_apart(
    LazyTensor tensor,
    const std::vector<std::int64_t>& rows,
    std::int64_t groups);

/// To group after group from rows in which those of the parts, of `head_size`
/// rows each, take turns: query, key, value, query, …
LazyTensor heads_from_turns(
    LazyTensor tensor,
    std::int64_t parts,
    std::int64_t head_size);

} // namespace cairn::checkpoints
