#include "nn/context_parity.h"
#include "support/run_ranks.h"

// Ranks that share a sequence, on one GPU, over Gloo and over NCCL.

namespace cairn::nn::context_parallel_gpu_test {
namespace {

using context_parity::compare;

/// 48 tokens are no whole number of the kernels' blocks of 32.
TEST(ContextParallelGpu, IsAttentionOfOneProcess) {
  testing::run_ranks(
      {.ranks = 2, .backend = distributed::BackendChoice::gloo_on_gpu},
      [](const distributed::World& world) {
        const at::Device device(world.device_name());
        ASSERT_TRUE(device.is_cuda());
        for (const ContextKind kind :
             {ContextKind::ring, ContextKind::ulysses}) {
          for (const at::ScalarType dtype :
               {at::kFloat, at::kBFloat16, at::kHalf}) {
            SCOPED_TRACE(
                ::testing::Message()
                << (kind == ContextKind::ring ? "ring" : "ulysses") << ", "
                << c10::toString(dtype));
            compare({2, kind, 8, 8, dtype}, world.group(), device);
            compare({2, kind, 8, 4, dtype}, world.group(), device);
            compare({2, kind, 8, 4, dtype, 0, true}, world.group(), device);
            compare({2, kind, 8, 1, dtype}, world.group(), device);
          }
        }
      });
}

TEST(ContextParallelGpu, RingOfThree) {
  testing::run_ranks(
      {.ranks = 3, .backend = distributed::BackendChoice::gloo_on_gpu},
      [](const distributed::World& world) {
        const at::Device device(world.device_name());
        for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
          const auto check = [&](context_parity::Case test) {
            test.dtype = dtype;
            compare(test, world.group(), device);
          };
          check({3, ContextKind::ring, 4, 2});
          check({3, ContextKind::ring, 4, 2, dtype, 0.2});
          check({3, ContextKind::ring, 4, 4, dtype, 0.1, true});
          // Heads that are no multiple of 8 are made longer.
          check({3, ContextKind::ring, 4, 2, dtype, 0, false, 12});
          check({3, ContextKind::ring, 4, 2, dtype, 0.2, true, 20});
        }
      });
}

/// The ring over NCCL, where a pass is one call for both directions.
TEST(ContextParallelNccl, RingOfTwoAndThree) {
  for (const int ranks : {2, 3}) {
    testing::run_ranks(
        testing::ranks_on_one_gpu(ranks),
        [&](const distributed::World& world) {
          const at::Device device(world.device_name());
          compare({ranks, ContextKind::ring, 4, 2}, world.group(), device);
          compare(
              {ranks, ContextKind::ring, 4, 2, at::kBFloat16, 0, true},
              world.group(),
              device);
        });
  }
}

} // namespace
} // namespace cairn::nn::context_parallel_gpu_test
