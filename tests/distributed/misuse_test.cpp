#include "support/error_text.h"
#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::distributed::misuse_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Makes calls that are wrong on one rank as on two, without waiting for
/// anyone.
void misuse(const ProcessGroup& group) {
  const int n = group.size();
  const at::Tensor x = at::ones({2L * n});
  EXPECT_THAT(
      error_text<CommError>([&] {
        group.all_reduce(at::ones({2, 3}).t()).wait();
      }),
      AllOf(
          HasSubstr("all_reduce on group \"world\" at misuse_test.cpp:"),
          HasSubstr("shape [3, 2] is not contiguous (strides [1, 3])"),
          HasSubstr("x.contiguous()")));
  EXPECT_THAT(
      error_text<CommError>([&] { group.all_reduce(at::Tensor()).wait(); }),
      HasSubstr("undefined"));
  EXPECT_THAT(
      error_text<CommError>([&] {
        group.all_reduce(at::ones({2}, at::kInt), ReduceOp::mean).wait();
      }),
      AllOf(HasSubstr("mean of int32"), HasSubstr("sum and divide")));
  EXPECT_THAT(
      error_text<CommError>([&] {
        group.all_reduce(at::ones({2}, at::kBool), ReduceOp::mean).wait();
      }),
      HasSubstr("mean of bool"));
  EXPECT_THAT(
      error_text<CommError>(
          [&] { group.all_reduce(at::ones({2}, at::kComplexFloat)).wait(); }),
      HasSubstr("complex64 cannot be reduced"));
  EXPECT_THAT(
      error_text<CommError>([&] { group.broadcast(x, n).wait(); }),
      HasSubstr("root " + std::to_string(n) + " is outside the group"));
  EXPECT_THAT(
      error_text<CommError>([&] { group.broadcast(x, -1).wait(); }),
      HasSubstr("root -1"));
  EXPECT_THAT(
      error_text<CommError>([&] { group.send(x, group.rank()).wait(); }),
      HasSubstr("is this rank itself"));
  EXPECT_THAT(
      error_text<CommError>([&] { group.recv(x, 17).wait(); }),
      HasSubstr("from 17"));
  EXPECT_THAT(
      error_text<CommError>([&] { group.reduce_scatter(at::ones({})).wait(); }),
      HasSubstr("shape [] cannot be cut"));
  EXPECT_THAT(
      error_text<CommError>(
          [&] { group.all_gather_into(at::ones({1}), x).wait(); }),
      HasSubstr("output has 1 elements"));
  EXPECT_THAT(
      error_text<CommError>([&] {
        group.reduce_scatter_into(at::ones({2}, at::kLong), x).wait();
      }),
      HasSubstr("x is float32, but output is int64"));
  EXPECT_THAT(
      error_text<CommError>([&] {
        group.all_gather(x, {1, 2, 3, 4, 5}).wait();
      }),
      HasSubstr("counts has 5 entries for"));
  EXPECT_THAT(
      error_text<CommError>(
          [&] { group.all_gather(x, std::vector<std::int64_t>(n, 1)).wait(); }),
      HasSubstr("is not counts[rank] = 1"));
  EXPECT_THAT(
      error_text<CommError>([&] {
        group.reduce_scatter(x, std::vector<std::int64_t>(n, -1)).wait();
      }),
      HasSubstr("negative"));
  if (n > 1) {
    EXPECT_THAT(
        error_text<CommError>([&] {
          const std::vector<std::int64_t> huge(n, INT64_MAX);
          group.all_to_all(x, huge, huge).wait();
        }),
        HasSubstr("the sum of send_counts is too large"));
  }
  EXPECT_THAT(
      error_text<CommError>([&] {
        const std::vector<std::int64_t> ones(n, 1);
        group.all_to_all(x, ones, ones).wait();
      }),
      HasSubstr("the sum of send_counts"));
  EXPECT_THAT(
      error_text<CommError>([&] { group.subgroup({n}); }),
      HasSubstr("outside the group"));
  EXPECT_THAT(
      error_text<CommError>([&] {
        group.subgroup({group.rank(), group.rank()});
      }),
      HasSubstr("twice"));
  EXPECT_THAT(
      error_text<CommError>([&] { group.subgroup({}); }),
      HasSubstr("not among []"));
}

TEST(Misuse, IsRefusedWithTheValues) {
  cairn::testing::run_ranks(2, [](const ProcessGroup& group) {
    misuse(group);
    EXPECT_THAT(
        error_text<CommError>([&] {
          group.reduce_scatter(at::ones({3, 2})).wait();
        }),
        HasSubstr("dim 0 of shape [3, 2] cannot be cut into 2 equal parts"));
    EXPECT_THAT(
        error_text<CommError>([&] {
          group.all_reduce(at::empty({2}, at::Device(at::kMeta))).wait();
        }),
        HasSubstr("a tensor is on meta, but the gloo backend moves cpu"));
    EXPECT_THAT(
        error_text<CommError>([&] { group.subgroup({1 - group.rank()}); }),
        HasSubstr("has no part in this group"));
    // The mistakes have not disturbed the group.
    EXPECT_EQ(group.all_reduce(at::ones({1})).wait().item<float>(), 2);
  });
}

TEST(Misuse, IsRefusedOnOneRankToo) {
  cairn::testing::run_ranks(
      {.ranks = 1, .backend = BackendChoice::automatic},
      [](const World& world) { misuse(world.group()); });
}

} // namespace
} // namespace cairn::distributed::misuse_test
