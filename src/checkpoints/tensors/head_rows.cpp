#include "checkpoints/internal/head_rows.h"

#include "checkpoints/tensors/lazy_operations.h"

#include <utility>

namespace cairn::checkpoints {

std::vector<std::int64_t> query_key_value_rows(
    const model::ModelDescription& d) {
  return {d.heads / d.key_value_heads * d.head_size, d.head_size, d.head_size};
}

std::vector<std::int64_t> key_value_rows(const model::ModelDescription& d) {
  return {d.head_size, d.head_size};
}

LazyTensor heads_together(
    LazyTensor tensor,
    const std::vector<std::int64_t>& rows,
    std::int64_t groups) {
  std::vector<RowRun> runs;
  for (std::int64_t group = 0; group < groups; ++group) {
    std::int64_t before = 0; // rows of a group in the parts before
    for (const std::int64_t count : rows) {
      runs.push_back({0, before * groups + group * count, count});
      before += count;
    }
  }
  return gathered({std::move(tensor)}, std::move(runs));
}

LazyTensor heads_apart(
    LazyTensor tensor,
    const std::vector<std::int64_t>& rows,
    std::int64_t groups) {
  const std::int64_t all = tensor.shape[0] / groups;
  std::vector<RowRun> runs;
  std::int64_t before = 0;
  for (const std::int64_t count : rows) {
    for (std::int64_t group = 0; group < groups; ++group) {
      runs.push_back({0, group * all + before, count});
    }
    before += count;
  }
  return gathered({std::move(tensor)}, std::move(runs));
}

LazyTensor heads_from_turns(
    LazyTensor tensor,
    std::int64_t parts,
    std::int64_t head_size) {
  std::vector<RowRun> runs;
  for (std::int64_t head = 0; head < tensor.shape[0];
       head += parts * head_size) {
    for (std::int64_t part = 0; part < parts; ++part) {
      for (std::int64_t row = 0; row < head_size; ++row) {
        runs.push_back({0, head + row * parts + part, 1});
      }
    }
  }
  return gathered({std::move(tensor)}, std::move(runs));
}

} // namespace cairn::checkpoints
