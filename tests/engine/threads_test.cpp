#include "engine/nets.h"
#include "kernels/internal/in_parallel.h"
#include "support/run_ranks.h"

#include <ATen/Parallel.h>
#include <cairn/engine/initialize.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// A rank with several threads.

namespace cairn::threads_test {
namespace {

/// Runs in its own process, since other tests fork.
void with_threads(int threads, const std::function<void()>& body) {
  testing::run_ranks({.ranks = 1}, [&](const distributed::World&) {
    at::set_num_threads(threads);
    body();
  });
}

TEST(InParallel, IsEverythingOnceOnEveryThread) {
  for (const int threads : {1, 2, 5}) {
    with_threads(threads, [&] {
      for (const std::int64_t count : {0, 1, 2, 5, 1000}) {
        std::vector<std::atomic<int>> times(static_cast<std::size_t>(count));
        std::atomic<int> parts = 0;
        kernels::in_parallel(count, [&](std::int64_t begin, std::int64_t end) {
          ++parts;
          for (std::int64_t i = begin; i < end; ++i) {
            ++times[static_cast<std::size_t>(i)];
          }
        });
        for (const auto& one : times) {
          EXPECT_EQ(one, 1);
        }
        EXPECT_EQ(parts, std::min<std::int64_t>(count, threads));
      }
    });
  }
}

TEST(InParallel, RunsAtTheSameTime) {
  with_threads(2, [] {
    std::atomic<int> arrived = 0;
    kernels::in_parallel(2, [&](std::int64_t, std::int64_t) {
      ++arrived;
      while (arrived < 2) { // for ever, if one waited for the other
        std::this_thread::yield();
      }
    });
  });
}

TEST(InParallel, PassesErrorsOn) {
  with_threads(2, [] {
    const auto fails = [](std::int64_t begin, std::int64_t) {
      if (begin > 0) {
        throw std::runtime_error("of the second half");
      }
    };
    EXPECT_THROW(kernels::in_parallel(2, fails), std::runtime_error);
  });
}

/// The weights after some steps, with so many threads in the optimizer alone:
/// the order of sums in matrix products is libtorch's matter.
std::vector<at::Tensor> trained(
    const distributed::World& world,
    const std::string& optimizer,
    int threads) {
  torch::manual_seed(3);
  const auto net = std::make_shared<testing::TanhStack>(3, 400);
  auto engine = initialize({.model = net,
                            .config = R"({"train_micro_batch_size_per_gpu": 4,
          "gradient_clipping": 0.01, "optimizer": {"type": ")" +
                                optimizer + R"("}})",
                            .world = world,
                            .logger = Logger({.least = LogLevel::error})})
                    .engine;
  for (int step = 0; step < 3; ++step) {
    at::set_num_threads(1);
    const at::Tensor x =
        at::sin(at::arange(4 * 400, at::kFloat) * (0.01 + step));
    engine.backward(engine(x.view({4, 400})).square().mean());
    at::set_num_threads(threads);
    engine.step();
  }
  std::vector<at::Tensor> weights;
  for (const at::Tensor& parameter : net->parameters()) {
    weights.push_back(parameter.detach().clone());
  }
  return weights;
}

TEST(OptimizerThreads, ChangeNoBit) {
  testing::run_ranks({.ranks = 1}, [](const distributed::World& world) {
    for (const char* optimizer : {"AdamW", "Lamb", "Lion"}) {
      SCOPED_TRACE(optimizer);
      const auto alone = trained(world, optimizer, 1);
      for (const int threads : {2, 3}) {
        const auto together = trained(world, optimizer, threads);
        for (std::size_t i = 0; i < alone.size(); ++i) {
          EXPECT_TRUE(at::equal(alone[i], together[i])) << i << ' ' << threads;
        }
      }
    }
  });
}

} // namespace
} // namespace cairn::threads_test
