#include "evaluate/row_batches.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace cairn::evaluate {
namespace {

/// Tokens that the model reads of a row: all but the last.
std::int64_t read_tokens(const TextRow& row) {
  return static_cast<std::int64_t>(row.tokens.size()) - 1;
}

/// Few different lengths: on a GPU every new one costs time of its own.
std::int64_t rounded(std::int64_t length, std::int64_t longest) {
  constexpr std::int64_t step = 16;
  return std::max(length, std::min((length + step - 1) / step * step, longest));
}

} // namespace

std::vector<RowBatch> row_batches(
    std::span<const TextRow> rows,
    const BatchShape& shape) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return rows[a].tokens.size() > rows[b].tokens.size();
  });
  const std::int64_t of_all = shape.rows * shape.ranks; // in a micro batch
  std::vector<RowBatch> batches;
  for (auto begin = order.begin(); begin != order.end();) {
    const std::int64_t first = read_tokens(rows[*begin]);
    const std::int64_t short_row = shape.longest_short.value_or(shape.longest);
    // The rows are sorted: long ones end where the short ones begin.
    const auto end = first <= short_row
        ? order.end()
        : std::find_if(begin, order.end(), [&](std::size_t row) {
            return read_tokens(rows[row]) <= short_row;
          });
    const auto left = static_cast<std::int64_t>(end - begin);
    const std::int64_t count = std::min(left, of_all * shape.at_once);
    RowBatch batch;
    batch.rows.assign(begin, begin + count);
    batch.length = rounded(
        first,
        first <= short_row ? std::min(short_row, shape.longest)
                           : shape.longest);
    batch.micro_batches = (count + of_all - 1) / of_all;
    batches.push_back(std::move(batch));
    begin += count;
  }
  return batches;
}

std::span<const std::size_t> micro_batch_rows(
    const RowBatch& batch,
    const BatchShape& shape,
    std::int64_t micro_batch,
    std::int64_t rank) {
  const auto all = static_cast<std::int64_t>(batch.rows.size());
  const std::int64_t begin =
      std::min(all, (micro_batch * shape.ranks + rank) * shape.rows);
  const std::int64_t end = std::min(all, begin + shape.rows);
  return std::span(batch.rows)
      .subspan(
          static_cast<std::size_t>(begin),
          static_cast<std::size_t>(end - begin));
}

} // namespace cairn::evaluate
