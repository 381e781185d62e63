// The part of the NCCL backend that one GPU can show: every call, every type,
// with one rank. The processes are forked before anything touches CUDA.

#include "distributed/internal/buffer_pool.h"
#include "distributed/internal/partition.h"
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

// Ranks 0 and 2, rank 1 alone: NCCL cuts the world, with all three ranks.
TEST(NcclGroup, IsCutIntoParts) {
  cairn::testing::run_ranks(
      cairn::testing::ranks_on_one_gpu(3),
      [](const World& world) {
        const std::vector<int> mine =
            world.rank() == 1 ? std::vector{1} : std::vector{2, 0};
        const ProcessGroup part = partition(world.group(), mine, "part");
        EXPECT_EQ(part.global_ranks(), mine);
        at::Tensor x = at::full({5}, world.rank() + 1, gpu(at::kFloat));
        EXPECT_EQ(
            part.all_gather(x).wait()[0].item<float>(),
            static_cast<float>(mine.front() + 1));
        const ProcessGroup second = second_group(part);
        EXPECT_EQ(
            second.all_reduce(x).wait()[0].item<float>(),
            world.rank() == 1 ? 2.0F : 4.0F);
        world.group().barrier();
      });
}

TEST(NcclGroup, SendsFromRegisteredMemory) {
  cairn::testing::run_ranks(
      cairn::testing::ranks_on_one_gpu(2),
      [](const World& world) {
        const ProcessGroup second = second_group(world.group());
        auto pool = make_buffer_pool({world.group(), second});
        ASSERT_NE(pool, nullptr);
        EXPECT_EQ(pool->bytes(), 0);
        for (int round = 0; round < 3; ++round) {
          at::Tensor x;
          at::Tensor all;
          {
            const BufferScope registered(pool.get());
            x = at::full({1 << 20}, world.rank() + 1, gpu(at::kFloat));
            all = at::empty({2 << 20}, gpu(at::kFloat));
          }
          EXPECT_GE(pool->bytes(), 3 << 22);
          EXPECT_LE(pool->bytes(), 6 << 22) << "memory is used again";
          second.all_gather_into(all, x).wait();
          EXPECT_EQ(all.sum().item<float>(), 3.0F * (1 << 20));
          world.group().all_reduce(x).wait();
          EXPECT_EQ(x.min().item<float>(), 3.0F);
        }
        const std::int64_t held = pool->bytes();
        const at::Tensor elsewhere = at::ones({1 << 22}, gpu(at::kFloat));
        EXPECT_EQ(pool->bytes(), held) << "only the scope makes it there";
        pool.reset();
        world.group().barrier();
      });
}

TEST(NcclGroup, RefusesTensorsOfTheCpu) {
  run([](const World& world) {
    EXPECT_THROW(world.group().all_reduce(at::ones({2})).wait(), CommError);
  });
}

} // namespace
} // namespace cairn::distributed::nccl_group_test
