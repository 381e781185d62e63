#include "nn/parallel/arriving_shares.h"
#include "nn/parallel_products.h"
#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>
#include <vector>

// Products that ranks divide, over NCCL: the ranks share one GPU.

namespace cairn::nn::tensor_parallel_gpu_test {
namespace {

using at::Tensor;
using testing::Products;
using testing::ranks_on_one_gpu;

TEST(TensorParallelNccl, ProductsAreThoseOfOneProcess) {
  for (const int ranks : {2, 4}) {
    testing::run_ranks(
        ranks_on_one_gpu(ranks),
        [&](const distributed::World& world) {
          const auto gpu = at::TensorOptions(at::Device(world.device_name()));
          for (const Products& products :
               {Products(
                    {.ranks = ranks,
          .tokens = 5 * ranks,
          .options = gpu.dtype(at::kFloat)}),
                Products( // rows of 16 bytes, which cuBLASLt takes
                    {.ranks = ranks,
                    .tokens = 17 * ranks,
                    .hidden = 64,
                    .wide = 48,
                    .tolerance = 0.1, // sums that cancel, of 16 bits
                     .options = gpu.dtype(at::kBFloat16)})}) {
            for (const TokenSplit tokens :
                 {TokenSplit::none,
                  TokenSplit::split,
                  TokenSplit::overlapped}) {
              SCOPED_TRACE(static_cast<int>(tokens));
              products.compare(world.group(), tokens);
            }
          }
        });
  }
}

/// A moment on the current stream of a GPU.
c10::Event moment(const at::Device& gpu) {
  c10::Event event(gpu.type(), c10::EventFlag::BACKEND_DEFAULT);
  event.record(c10::impl::VirtualGuardImpl(gpu.type()).getStream(gpu));
  return event;
}

TEST(TensorParallelNccl, TheOwnShareIsMultipliedWhileOthersTravel) {
  testing::run_ranks(ranks_on_one_gpu(2), [](const distributed::World& world) {
    const at::Device gpu(world.device_name());
    const auto options = at::TensorOptions(gpu).dtype(at::kBFloat16);
    const c10::impl::VirtualGuardImpl guard(gpu.type());
    const c10::Stream other = guard.getStreamFromGlobalPool(gpu);
    const Tensor own = at::randn({4096, 1024}, options);
    const Tensor weight = at::randn({1024, 16384}, options);
    const Tensor last = at::ones({1}, options);
    const auto pass = [&](bool shown) {
      guard.synchronizeDevice(gpu.index());
      world.group().barrier();
      ArrivingShares shares(own, world.group());
      // Calls of a group run one after the other: this one ends when the share
      // of the other rank is here.
      distributed::Pending after = world.group().all_reduce(last);
      const c10::Event begin = moment(gpu);
      at::mm(own, weight);
      const c10::Event end = moment(gpu);
      shares.joined();
      const c10::StreamGuard on_other(other);
      after.wait();
      const c10::Event arrived = moment(gpu);
      guard.synchronizeDevice(gpu.index());
      if (shown) {
        const double product = begin.elapsedTime(end);
        const double arrival = begin.elapsedTime(arrived);
        fmt::print(
            "rank {}: own product {:.2f} ms; from its begin until the other "
            "share is there {:.2f} ms\n",
            world.rank(),
            product,
            arrival);
        std::fflush(stdout);
        EXPECT_GT(arrival, 0.1); // the share was on its way
      }
    };
    pass(false); // connects the ranks and chooses algorithms
    pass(true);
  });
}

/// What a profiler saw of the kernels of a pass, in milliseconds.
struct Trace {
  double computing = 0; ///< kernels that are not NCCL's
  double moving = 0;    ///< NCCL's
  double both = 0;      ///< of `computing`, while one of NCCL's ran
};

Trace traced(
    const distributed::World& world,
    const std::function<void()>& pass) {
  namespace profiler = torch::autograd::profiler;
  using torch::profiler::impl::ActivityType;
  using torch::profiler::impl::ProfilerConfig;
  using torch::profiler::impl::ProfilerState;
  const at::Device gpu(world.device_name());
  const c10::impl::VirtualGuardImpl guard(gpu.type());
  pass(); // connects the ranks and chooses algorithms
  guard.synchronizeDevice(gpu.index());
  world.group().barrier();
  const ProfilerConfig config(ProfilerState::KINETO);
  const std::set<ActivityType> activities{
      ActivityType::CPU,
      ActivityType::CUDA};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  pass();
  guard.synchronizeDevice(gpu.index());
  const auto result = profiler::disableProfiler();

  struct Span {
    double begin, end;
  };
  std::vector<Span> computing, moving;
  for (const auto& event : result->events()) {
    if (event.deviceType() == c10::DeviceType::CUDA) {
      const double begin = static_cast<double>(event.startNs()) * 1e-6;
      const double length = static_cast<double>(event.durationNs()) * 1e-6;
      const bool nccl = event.name().starts_with("nccl");
      (nccl ? moving : computing).push_back({begin, begin + length});
    }
  }
  Trace trace;
  for (const Span& span : moving) {
    trace.moving += span.end - span.begin;
  }
  for (const Span& span : computing) {
    trace.computing += span.end - span.begin;
    for (const Span& other : moving) {
      trace.both += std::max(
          0.0,
          std::min(span.end, other.end) - std::max(span.begin, other.begin));
    }
  }
  return trace;
}

TEST(TensorParallelNccl, NcclRunsBesideProductsOnlyIfOverlapped) {
  testing::run_ranks(ranks_on_one_gpu(2), [](const distributed::World& world) {
    const auto options =
        at::TensorOptions(at::Device(world.device_name())).dtype(at::kBFloat16);
    const at::NoGradGuard no_grad;
    const distributed::ProcessGroup& group = world.group();
    const Tensor share = at::randn({1, 2048, 1024}, options);
    const Tensor wide = at::randn({32768, 1024}, options);
    const Tensor all = at::randn({1, 4096, 32768}, options);
    const Tensor narrow = at::randn({1024, 32768}, options);
    const auto check = [&](const char* what,
                           const std::function<void(TokenSplit)>& pass) {
      const Trace apart = traced(world, [&] { pass(TokenSplit::split); });
      // Whether a message is still on its way when a product begins depends on
      // what else the machine does, so several passes may show it.
      Trace beside;
      for (int i = 0; i < 8; ++i) {
        const Trace one = traced(world, [&] { pass(TokenSplit::overlapped); });
        if (one.both >= beside.both) {
          beside = one;
        }
      }
      fmt::print(
          "rank {}, {}: kernels {:.2f} ms, NCCL {:.2f} ms, both at a time "
          "{:.2f} ms; overlapped {:.2f}, {:.2f}, {:.2f} ms\n",
          world.rank(),
          what,
          apart.computing,
          apart.moving,
          apart.both,
          beside.computing,
          beside.moving,
          beside.both);
      std::fflush(stdout);
      EXPECT_LT(apart.both, 0.05 * apart.computing);
      EXPECT_GT(beside.both, 0.2 * beside.computing);
    };
    check("gather and product", [&](TokenSplit tokens) {
      column_linear(share, {wide}, {Tensor()}, group, tokens);
    });
    check("product and scatter", [&](TokenSplit tokens) {
      row_linear(all, narrow, {}, group, tokens);
    });
  });
}

} // namespace
} // namespace cairn::nn::tensor_parallel_gpu_test
