// The part of the NCCL backend that one GPU can show: every call, every type,
// with one rank. The processes are forked before anything touches CUDA.

#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <cairn/distributed/init_distributed.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace cairn::distributed::nccl_group_test {
namespace {

void run(const std::function<void(const World&)>& body) {
  cairn::testing::run_ranks(
      {.ranks = 1, .backend = BackendChoice::nccl},
      [&](const World& world) {
        ASSERT_EQ(world.group().backend(), "nccl");
        ASSERT_EQ(world.device_name(), "cuda:0");
        body(world);
      });
}

at::TensorOptions gpu(at::ScalarType dtype) {
  return at::TensorOptions().dtype(dtype).device(at::kCUDA);
}

TEST(NcclGroup, EveryCallOnEveryType) {
  run([](const World& world) {
    const ProcessGroup& group = world.group();
    for (const at::ScalarType dtype :
         {at::kFloat,
          at::kDouble,
          at::kBFloat16,
          at::kHalf,
          at::kChar,
          at::kByte,
          at::kShort,
          at::kInt,
          at::kLong,
          at::kBool}) {
      const at::Tensor x =
          at::arange(12, gpu(at::kLong)).remainder(5).view({4, 3}).to(dtype);
      const auto same = [&](const at::Tensor& y, const std::string& what) {
        EXPECT_TRUE(at::equal(y, x)) << at::toString(dtype) << " " << what;
      };
      for (const ReduceOp op :
           {ReduceOp::sum,
            ReduceOp::mean,
            ReduceOp::max,
            ReduceOp::min,
            ReduceOp::product}) {
        if (op == ReduceOp::mean && !at::isFloatingType(dtype)) {
          continue;
        }
        const std::string what(reduce_op_name(op));
        same(group.all_reduce(x.clone(), op).wait(), what);
        same(group.reduce_scatter(x, op).wait(), what);
        same(group.reduce_scatter(x, {4}, op).wait(), what);
      }
      same(group.all_gather(x).wait(), "all_gather");
      same(group.all_gather(x, {4}).wait(), "all_gather uneven");
      same(group.all_to_all(x).wait(), "all_to_all");
      same(group.all_to_all(x, {4}, {4}).wait(), "all_to_all uneven");
      same(group.broadcast(x.clone(), 0).wait(), "broadcast");
    }
    group.barrier();
  });
}

TEST(NcclGroup, ManyTensorsInOneCall) {
  run([](const World& world) {
    const ProcessGroup& group = world.group();
    const std::vector<at::Tensor> xs = {
        at::ones({3}, gpu(at::kFloat)),
        at::ones({2, 2}, gpu(at::kBFloat16)),
        at::ones({5}, gpu(at::kFloat))};
    for (const auto& results :
         {group.all_reduce(xs).wait_all(),
          group.all_gather(xs).wait_all(),
          group.reduce_scatter(xs).wait_all(),
          group.broadcast(xs, 0).wait_all()}) {
      ASSERT_EQ(results.size(), 3U);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(at::equal(results[i], xs[i]));
      }
    }
  });
}

TEST(NcclGroup, TheRecorderSeesTheGpuFinish) {
  run([](const World& world) {
    const ProcessGroup& group = world.group();
    Pending pending = group.all_reduce(at::ones({1 << 20}, gpu(at::kFloat)));
    pending.wait();
    group.barrier();
    const auto limit =
        std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!pending.done() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_TRUE(pending.done());
    const auto records = world.records();
    ASSERT_EQ(records.size(), 2U);
    EXPECT_EQ(records[0].state, CollectiveState::finished);
    EXPECT_EQ(records[0].dtype, "float32");
  });
}

TEST(NcclGroup, RefusesTensorsOfTheCpu) {
  run([](const World& world) {
    EXPECT_THROW(world.group().all_reduce(at::ones({2})).wait(), CommError);
  });
}

} // namespace
} // namespace cairn::distributed::nccl_group_test
