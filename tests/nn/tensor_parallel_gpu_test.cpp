#include "nn/parallel/arriving_shares.h"
#include "nn/parallel_products.h"
#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>

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
                    .tolerance = 2e-2,
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

/// The shortest of some passes, in milliseconds.
double shortest(
    const distributed::World& world,
    const std::function<void()>& pass) {
  const at::Device gpu(world.device_name());
  const c10::impl::VirtualGuardImpl guard(gpu.type());
  double best = 1e9;
  for (int i = 0; i < 6; ++i) {
    guard.synchronizeDevice(gpu.index());
    world.group().barrier();
    const c10::Event begin = moment(gpu);
    pass();
    const c10::Event end = moment(gpu);
    guard.synchronizeDevice(gpu.index());
    best = i == 0 ? best : std::min(best, begin.elapsedTime(end)); // warms up
  }
  return best;
}

TEST(TensorParallelNccl, OverlappedProductsTakeLessTime) {
  testing::run_ranks(ranks_on_one_gpu(2), [](const distributed::World& world) {
    const auto options =
        at::TensorOptions(at::Device(world.device_name())).dtype(at::kBFloat16);
    const at::NoGradGuard no_grad;
    const distributed::ProcessGroup& group = world.group();
    // As long as the shares travel between two ranks on one GPU, or longer.
    const Tensor share = at::randn({1, 2048, 512}, options);
    const Tensor wide = at::randn({131072, 512}, options);
    const Tensor all = at::randn({1, 4096, 131072}, options);
    const Tensor narrow = at::randn({512, 131072}, options);
    const auto gathering = [&](TokenSplit tokens) {
      return shortest(world, [&] {
        column_linear(share, {wide}, {Tensor()}, group, tokens);
      });
    };
    const auto scattering = [&](TokenSplit tokens) {
      return shortest(world, [&] {
        row_linear(all, narrow, {}, group, tokens);
      });
    };
    const double gathered = gathering(TokenSplit::split);
    const double arriving = gathering(TokenSplit::overlapped);
    const double scattered = scattering(TokenSplit::split);
    const double leaving = scattering(TokenSplit::overlapped);
    fmt::print(
        "rank {}: gather, then product {:.2f} ms, overlapped {:.2f} ms; "
        "product, then scatter {:.2f} ms, overlapped {:.2f} ms\n",
        world.rank(),
        gathered,
        arriving,
        scattered,
        leaving);
    std::fflush(stdout);
    EXPECT_LT(arriving, gathered);
    EXPECT_LT(leaving, scattered);
  });
}

} // namespace
} // namespace cairn::nn::tensor_parallel_gpu_test
