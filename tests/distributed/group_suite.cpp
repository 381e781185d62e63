// The suite for every backend, with real processes. Each test does much in one
// set of processes: starting them costs more than the calls.

#include "distributed/group_suite.h"

#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <cairn/distributed/process_group.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace cairn::distributed::group_suite {

using cairn::testing::ranks_on_one_gpu;
using cairn::testing::RanksOptions;
using cairn::testing::run_ranks;

std::string name_of(const Setting& setting) {
  return fmt::format(
      "{}_{}{}",
      setting.backend,
      setting.ranks,
      setting.shared_memory ? "_shared_memory" : "");
}

void GroupSuite::run(const std::function<void(const ProcessGroup&)>& body) {
  const bool local = GetParam().backend == std::string("local");
  const int ranks = GetParam().ranks;
  run_ranks(
      on_stream()
          ? ranks_on_one_gpu(ranks)
          : RanksOptions{
                .ranks = ranks,
                .backend =
                    local ? BackendChoice::automatic : BackendChoice::gloo,
                .shared_memory = GetParam().shared_memory},
      [&](const World& world) {
        ASSERT_EQ(world.group().backend(), GetParam().backend);
        body(world.group());
      });
}

bool GroupSuite::on_stream() {
  return GetParam().backend == std::string("nccl");
}

at::TensorOptions GroupSuite::like(at::ScalarType dtype) {
  return at::TensorOptions(dtype).device(on_stream() ? at::kCUDA : at::kCPU);
}

bool GroupSuite::is_done(const Pending& pending) {
  using Clock = std::chrono::steady_clock;
  const auto limit = Clock::now() + std::chrono::seconds(10);
  while (on_stream() && !pending.done() && Clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return pending.done();
}

namespace {

constexpr at::ScalarType all_dtypes[] = {
    at::kFloat,
    at::kDouble,
    at::kBFloat16,
    at::kHalf,
    at::kChar,
    at::kByte,
    at::kShort,
    at::kInt,
    at::kLong,
    at::kBool};

constexpr ReduceOp all_ops[] = {
    ReduceOp::sum,
    ReduceOp::mean,
    ReduceOp::max,
    ReduceOp::min,
    ReduceOp::product};

void expect_equal(
    const at::Tensor& actual,
    const at::Tensor& expected,
    const std::string& what) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << what;
  EXPECT_TRUE(at::equal(actual, expected)) << what << "\nactual:\n"
                                           << actual << "\nexpected:\n"
                                           << expected;
}

/// The values of rank `rank`: small numbers that every type holds exactly.
at::Tensor values(
    const at::TensorOptions& like,
    int rank,
    at::IntArrayRef shape) {
  std::int64_t numel = 1;
  for (const std::int64_t size : shape) {
    numel *= size;
  }
  return (at::arange(numel, like.dtype(at::kLong)) * 7 + rank * 3)
      .remainder(4)
      .view(shape)
      .to(like.dtype());
}

/// The reduction, written out.
at::Tensor reduced(
    const at::TensorOptions& like,
    int ranks,
    at::IntArrayRef shape,
    ReduceOp op) {
  std::vector<at::Tensor> rows;
  for (int rank = 0; rank < ranks; ++rank) {
    rows.push_back(values(like, rank, shape).to(at::kDouble));
  }
  const at::Tensor all = at::stack(rows);
  switch (op) {
    case ReduceOp::sum:
      return all.sum(0).to(like.dtype()); // to(bool): any
    case ReduceOp::mean:
      return all.mean(0).to(like.dtype());
    case ReduceOp::max:
      return all.amax(0).to(like.dtype());
    case ReduceOp::min:
      return all.amin(0).to(like.dtype());
    case ReduceOp::product:
      return all.prod(0).to(like.dtype()); // to(bool): all
  }
  return {};
}

bool can_reduce(at::ScalarType dtype, ReduceOp op) {
  return op != ReduceOp::mean || at::isFloatingType(dtype);
}

TEST_P(GroupSuite, ReducesEveryType) {
  run([](const ProcessGroup& group) {
    const int n = group.size();
    for (const at::ScalarType dtype : all_dtypes) {
      for (const ReduceOp op : all_ops) {
        if (!can_reduce(dtype, op)) {
          continue;
        }
        const std::string what =
            fmt::format("{} {}", at::toString(dtype), reduce_op_name(op));
        const std::int64_t shape[] = {4L * n, 3};
        const at::Tensor mine = values(like(dtype), group.rank(), shape);
        const at::Tensor expected = reduced(like(dtype), n, shape, op);
        const at::Tensor x = mine.clone();
        expect_equal(group.all_reduce(x, op).wait(), expected, what);
        expect_equal(x, expected, what + " in place");
        const at::Tensor part = expected.narrow(0, 4L * group.rank(), 4);
        expect_equal(group.reduce_scatter(mine, op).wait(), part, what);
        const at::Tensor into = at::empty_like(part);
        group.reduce_scatter_into(into, mine, op).wait();
        expect_equal(into, part, what + " into");
        expect_equal(
            mine,
            values(like(dtype), group.rank(), shape),
            what + " input");
      }
    }
  });
}

TEST_P(GroupSuite, MovesEveryType) {
  run([](const ProcessGroup& group) {
    const int n = group.size();
    for (const at::ScalarType dtype : all_dtypes) {
      const std::string what = at::toString(dtype);
      const std::int64_t shape[] = {n, 5};
      const at::Tensor mine = values(like(dtype), group.rank(), shape);
      std::vector<at::Tensor> everyones;
      std::vector<at::Tensor> for_me;
      for (int rank = 0; rank < n; ++rank) {
        everyones.push_back(values(like(dtype), rank, shape));
        for_me.push_back(everyones.back().narrow(0, group.rank(), 1));
      }
      const at::Tensor gathered = at::cat(everyones);
      expect_equal(group.all_gather(mine).wait(), gathered, what);
      const at::Tensor into = at::empty_like(gathered);
      group.all_gather_into(into, mine).wait();
      expect_equal(into, gathered, what);
      expect_equal(group.all_to_all(mine).wait(), at::cat(for_me), what);
      const at::Tensor x = mine.clone();
      group.broadcast(x, n - 1).wait();
      expect_equal(x, everyones.back(), what);
    }
    // Tensors without a shape, without a value, and complex ones.
    const at::Tensor number = at::full({}, group.rank(), like(at::kLong));
    expect_equal(
        group.all_gather(number).wait(),
        at::arange(n, like(at::kLong)),
        "scalar");
    const at::Tensor nothing = at::empty({0, 3}, like());
    EXPECT_EQ(group.all_reduce(nothing).wait().numel(), 0);
    EXPECT_EQ(group.all_gather(nothing).wait().size(0), 0);
    EXPECT_EQ(group.reduce_scatter(nothing).wait().size(0), 0);
    const at::Tensor z =
        at::full({2}, c10::complex<float>(1, 2), like(at::kComplexFloat));
    expect_equal(group.all_gather(z).wait(), z.repeat({n}), "complex");
  });
}

TEST_P(GroupSuite, HalfPrecisionIsAddedUpExactly) {
  run([](const ProcessGroup& group) {
    // The sum 2048 + 1 is 2048 in fp16, and 60000 + 60000 is infinite.
    const auto half = [](float first) {
      return at::tensor({first, 60000.0F}).to(like(at::kHalf));
    };
    const at::Tensor x = half(group.rank() == 0 ? 2048 : 1);
    const float n = static_cast<float>(group.size());
    const at::Tensor mean = half((2048 + n - 1) / n);
    const at::Tensor many = x.repeat({group.size()});
    for (const at::Tensor& got :
         {group.all_reduce(x.clone(), ReduceOp::mean).wait(),
          group.reduce_scatter(many, ReduceOp::mean).wait()}) {
      if (on_stream()) { // NCCL rounds after every rank, without overflow
        EXPECT_TRUE(at::allclose(got, mean, /*rtol=*/4e-3, /*atol=*/0)) << got;
      } else {
        expect_equal(got, mean, "");
      }
    }
  });
}

TEST_P(GroupSuite, UnevenParts) {
  run([](const ProcessGroup& group) {
    const int n = group.size();
    // Rank r has r rows, so the first has none at all.
    std::vector<std::int64_t> counts(n);
    std::iota(counts.begin(), counts.end(), n == 1 ? 2 : 0);
    const std::int64_t rows =
        std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const std::int64_t mine = counts[group.rank()];
    for (const at::ScalarType dtype : all_dtypes) {
      const std::string what = at::toString(dtype);
      std::vector<at::Tensor> everyones;
      for (int rank = 0; rank < n; ++rank) {
        everyones.push_back(values(like(dtype), rank, {counts[rank], 3}));
      }
      const at::Tensor gathered =
          group.all_gather(everyones[group.rank()], counts).wait();
      expect_equal(gathered, at::cat(everyones), what);

      const std::int64_t shape[] = {rows, 3};
      const std::int64_t begin = std::accumulate(
          counts.begin(),
          counts.begin() + group.rank(),
          std::int64_t{0});
      expect_equal(
          group
              .reduce_scatter(
                  values(like(dtype), group.rank(), shape),
                  counts,
                  ReduceOp::max)
              .wait(),
          reduced(like(dtype), n, shape, ReduceOp::max).narrow(0, begin, mine),
          what);

      // Rank r sends s rows to rank s, and so gets r rows from everyone.
      const at::Tensor sent = values(like(dtype), group.rank(), shape);
      const std::vector<std::int64_t> received(n, mine);
      std::vector<at::Tensor> for_me;
      for (int rank = 0; rank < n; ++rank) {
        for_me.push_back(
            values(like(dtype), rank, shape).narrow(0, begin, mine));
      }
      expect_equal(
          group.all_to_all(sent, counts, received).wait(),
          at::cat(for_me),
          what);
    }
    const std::vector<std::int64_t> none(n, 0);
    EXPECT_EQ(
        group.all_gather(at::empty({0, 2}, like()), none).wait().size(0),
        0);
    EXPECT_EQ(
        group.all_to_all(at::empty({0, 2}, like()), none, none).wait().size(0),
        0);
  });
}

TEST_P(GroupSuite, ManyTensorsInOneCall) {
  run([](const ProcessGroup& group) {
    const int n = group.size();
    // Types and sizes are mixed, an empty tensor among them.
    const auto make = [&](int rank) {
      return std::vector<at::Tensor>{
          values(like(at::kFloat), rank, {n, 2}),
          values(like(at::kBFloat16), rank, {3L * n}),
          values(like(at::kFloat), rank, {2L * n, 1, 2}),
          at::empty({0}, like(at::kInt)),
          values(like(at::kLong), rank, {n})};
    };
    const std::vector<at::Tensor> mine = make(group.rank());
    const auto copy = [&] {
      std::vector<at::Tensor> copies;
      for (const at::Tensor& x : mine) {
        copies.push_back(x.clone());
      }
      return copies;
    };
    const auto sums = group.all_reduce(copy()).wait_all();
    const auto parts = group.reduce_scatter(mine).wait_all();
    const auto wholes = group.all_gather(mine).wait_all();
    const auto roots = group.broadcast(copy(), n - 1).wait_all();
    ASSERT_EQ(sums.size(), mine.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const std::string what = fmt::format("tensor {}", i);
      at::Tensor sum = at::zeros_like(mine[i]);
      std::vector<at::Tensor> everyones;
      for (int rank = 0; rank < n; ++rank) {
        everyones.push_back(make(rank)[i]);
        sum += everyones.back();
      }
      expect_equal(sums[i], sum, what);
      const std::int64_t rows = sum.size(0) / n;
      expect_equal(parts[i], sum.narrow(0, group.rank() * rows, rows), what);
      expect_equal(wholes[i], at::cat(everyones), what);
      expect_equal(roots[i], everyones.back(), what);
    }
    EXPECT_TRUE(group.all_reduce(ProcessGroup::Tensors{}).wait_all().empty());
  });
}

TEST_P(GroupSuite, ManyCallsAtOnce) {
  run([](const ProcessGroup& group) {
    const int n = group.size();
    std::vector<Pending> pending;
    std::vector<at::Tensor> xs;
    for (int i = 0; i < 50; ++i) {
      xs.push_back(at::full({100}, group.rank() + i, like()));
      pending.push_back(group.all_reduce(xs.back()));
    }
    for (int i = 49; i >= 0; --i) { // in another order than started
      const float expected =
          static_cast<float>(n * i) + static_cast<float>(n * (n - 1)) / 2;
      EXPECT_EQ(pending[i].wait()[0].item<float>(), expected);
      EXPECT_TRUE(is_done(pending[i]));
      EXPECT_EQ(pending[i].wait()[99].item<float>(), expected) << "again";
    }
    // Dropping one waits for it, and the result is there.
    const at::Tensor x = at::ones({1000}, like(at::kHalf));
    { const Pending dropped = group.all_reduce(x); }
    EXPECT_EQ(x[0].item<float>(), static_cast<float>(n));
    // Assigning over one waits for it, too.
    const at::Tensor y = at::ones({10}, like(at::kHalf));
    Pending later = group.all_reduce(y);
    later = group.all_reduce(at::ones({10}, like()));
    EXPECT_EQ(y[0].item<float>(), static_cast<float>(n));
    later.wait();
    // Tensors that take part in autograd are ordinary memory here.
    const at::Tensor leaf = at::ones({4}, like()).requires_grad_();
    EXPECT_EQ(group.all_reduce(leaf, ReduceOp::max).wait()[0].item<float>(), 1);
  });
}

TEST_P(GroupSuite, Messages) {
  run([](const ProcessGroup& group) {
    const int n = group.size();
    if (n == 1) {
      EXPECT_THROW(group.send(at::ones({1}, like()), 0).wait(), CommError);
      return;
    }
    const int next = (group.rank() + 1) % n;
    const int previous = (group.rank() + n - 1) % n;
    const auto send = [&] {
      std::vector<Pending> sent;
      for (int i = 0; i < 5; ++i) {
        sent.push_back(group.send(
            at::full({i + 1}, group.rank() * 10 + i, like(at::kBFloat16)),
            next));
      }
      return sent;
    };
    const auto receive = [&] {
      for (int i = 0; i < 5; ++i) { // in the order in which they were sent
        const at::Tensor x = at::empty({i + 1}, like(at::kBFloat16));
        group.recv(x, previous).wait();
        EXPECT_EQ(x[i].item<float>(), static_cast<float>(previous * 10 + i));
      }
    };
    // Everyone sends before anyone receives; on a stream every other rank
    // receives first.
    const bool first = on_stream() && group.rank() % 2 == 1;
    if (first) {
      receive();
    }
    std::vector<Pending> sent = send();
    if (!first) {
      receive();
    }
    for (Pending& pending : sent) {
      pending.wait();
      EXPECT_TRUE(is_done(pending));
    }
    if (on_stream()) { // the barrier below would wait for the receive
      return;
    }
    // A receive that is posted first knows when it is done.
    const at::Tensor x = at::zeros({3}, like(at::kLong));
    Pending receiving = group.recv(x, previous);
    group.barrier();
    EXPECT_FALSE(receiving.done());
    group.barrier();
    group.send(at::full({3}, 7, like(at::kLong)), next).wait();
    receiving.wait();
    EXPECT_EQ(x.sum().item<std::int64_t>(), 21);
  });
}

TEST_P(GroupSuite, ManyGroups) {
  run([](const ProcessGroup& group) {
    const int n = group.size();
    std::vector<int> everyone(n);
    std::iota(everyone.begin(), everyone.end(), 0);
    const std::vector<int> reversed(everyone.rbegin(), everyone.rend());
    for (int i = 0; i < 20; ++i) {
      const ProcessGroup sub = group.subgroup(i % 2 == 0 ? everyone : reversed);
      EXPECT_EQ(sub.size(), n);
      EXPECT_EQ(sub.rank(), i % 2 == 0 ? group.rank() : n - 1 - group.rank());
      const at::Tensor ranks =
          sub.all_gather(at::full({1}, group.rank(), like(at::kInt))).wait();
      EXPECT_EQ(ranks[0].item<int>(), sub.global_ranks()[0]);
    }
    // Odd and even ranks work at the same time, with a group within a group.
    const ProcessGroup half = group.split(group.rank() % 2);
    EXPECT_EQ(half.size(), (n + 1 - group.rank() % 2) / 2);
    EXPECT_EQ(half.global_ranks()[half.rank()], group.rank());
    const at::Tensor sum =
        half.all_reduce(at::full({1}, group.rank(), like(at::kInt))).wait();
    int expected = 0;
    for (int rank = group.rank() % 2; rank < n; rank += 2) {
      expected += rank;
    }
    EXPECT_EQ(sum.item<int>(), expected);
    const ProcessGroup alone = half.subgroup({half.rank()}, "alone");
    EXPECT_EQ(alone.name(), "alone");
    EXPECT_EQ(alone.size(), 1);
    EXPECT_EQ(alone.backend(), "local");
    EXPECT_EQ(alone.global_ranks(), std::vector<int>{group.rank()});
    const at::Tensor x = at::ones({2}, like());
    EXPECT_TRUE(alone.all_gather(x).wait().is_same(x)) << "copied";
    group.require_all("the end");
    group.require_all("the end");
  });
}

} // namespace
} // namespace cairn::distributed::group_suite
