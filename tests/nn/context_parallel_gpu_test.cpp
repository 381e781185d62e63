#include "nn/context_parity.h"
#include "support/run_ranks.h"

// Ranks that share a sequence, on one GPU. They use Gloo, since NCCL refuses
// two ranks on a GPU.

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
          }
        }
      });
}

/// Ranks send in turns; one sends before it receives on both sides.
TEST(ContextParallelGpu, RingOfThree) {
  testing::run_ranks(
      {.ranks = 3, .backend = distributed::BackendChoice::gloo_on_gpu},
      [](const distributed::World& world) {
        const at::Device device(world.device_name());
        for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
          compare({3, ContextKind::ring, 4, 2, dtype}, world.group(), device);
        }
      });
}

} // namespace
} // namespace cairn::nn::context_parallel_gpu_test
