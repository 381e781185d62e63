// Gradients of a table's rows, against the same sums in double precision.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "kernels/cuda_test.h"
#include "kernels/internal/cuda/table_rows.h"

namespace cairn::kernels::cuda_table_test {
namespace {

using at::Tensor;
using cuda_test::Type;
using cuda_test::types;

/// Adds gradients to a table with rows that are picked often, seldom and never.
void check_table(
    const Type& type,
    const Type& of_table,
    const std::vector<std::int64_t>& numbers,
    std::int64_t columns) {
  constexpr std::int64_t words = 40;
  const auto count = static_cast<std::int64_t>(numbers.size());
  const Tensor gradients = cuda_test::random({count, columns}, type);
  const Tensor table = cuda_test::random({words, columns}, of_table);
  const Tensor before = cuda_test::exact(table);
  const Tensor ids = at::tensor(numbers, at::kLong);
  const auto [sorted, order] =
      at::sort(ids.to(cuda_test::device), std::optional<bool>(true), 0);
  const cuda::PickedRows picked{
      .gradients = gradients.const_data_ptr(),
      .element = type.element,
      .count = count,
      .columns = columns,
      .numbers = sorted.const_data_ptr<std::int64_t>(),
      .order = order.const_data_ptr<std::int64_t>()};
  const Tensor scratch = at::full(
      {cuda::table_scratch(picked)},
      NAN,
      at::TensorOptions(cuda_test::device).dtype(at::kFloat));
  cuda_test::started(cuda::add_to_table(
      picked,
      scratch.mutable_data_ptr<float>(),
      table.mutable_data_ptr(),
      of_table.element,
      cuda_test::stream()));
  const Tensor expected = before.index_add(0, ids, cuda_test::exact(gradients));
  cuda_test::expect_near(table, expected, of_table.step + 1e-5);
}

TEST(TableRows, GetTheirGradientsAdded) {
  std::vector<std::int64_t> mixed;
  for (std::int64_t i = 0; i < 700; ++i) {
    mixed.push_back(i % 3 == 0 ? 7 : (i * i) % 37); // row 7 is a common word
  }
  for (const Type& type : types) {
    for (const Type& of_table : {type, types[0]}) {
      check_table(type, of_table, mixed, 24);
      check_table(type, of_table, mixed, 21);
    }
  }
  const Type& bf16 = types[2];
  check_table(bf16, types[0], {3}, 8);
  check_table(bf16, types[0], {}, 8);
  check_table(bf16, types[0], std::vector<std::int64_t>(16, 39), 8);
  check_table(bf16, types[0], std::vector<std::int64_t>(33, 0), 8);
  std::vector<std::int64_t> edges(16, 1); // rows end where stretches end
  edges.insert(edges.end(), 32, 2);
  edges.insert(edges.end(), 17, 3);
  check_table(bf16, types[0], edges, 2056);
}

} // namespace
} // namespace cairn::kernels::cuda_table_test
