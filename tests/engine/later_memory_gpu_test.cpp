#include "engine/later_memory.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

// The memory test of models that are built without memory, for the memory of a
// GPU. Two ranks share it, each with an allocator of its own.

namespace cairn::later_memory_gpu_test {
namespace {

using later_memory::Case;

later_memory::Meter meter_of_gpu() {
  const auto& allocator = c10::cuda::CUDACachingAllocator::get();
  return {
      .peak =
          [allocator] {
            return static_cast<double>(
                allocator->getDeviceStats(0).allocated_bytes[0].peak);
          },
      .reset = [allocator] { allocator->resetPeakStats(0); },
      .libraries = 120e6};
}

/// A model whose states are 700 MB, half of which is far more than what the
/// libraries take.
void check_on_gpu(
    const testing::TemporaryFolder& folder,
    std::vector<Case> cases) {
  testing::run_ranks(
      testing::ranks_on_one_gpu(2),
      [&](const distributed::World& world) {
        // By default cuBLAS takes as much as a rank's states.
        ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:2", 1);
        ::setenv("CUBLASLT_WORKSPACE_SIZE", "4096", 1);
        at::ones({1}, at::kCUDA); // the allocator is there from now on
        const later_memory::Meter meter = meter_of_gpu();
        for (Case& row : cases) {
          row.hidden = 512;
          later_memory::check(world, folder.path(), row, meter);
        }
      });
}

TEST(LaterMemoryGpu, NoRankHoldsTheWholeModel) {
  const testing::TemporaryFolder folder;
  check_on_gpu(folder, {{.stage = 1}, {.stage = 2}, {.stage = 3}});
}

TEST(LaterMemoryGpu, OffloadedStatesAreNotThere) {
  const testing::TemporaryFolder folder;
  check_on_gpu(
      folder,
      {{.stage = 1, .optimizer = "cpu"},
       {.stage = 2, .optimizer = "cpu"},
       {.stage = 3, .optimizer = "cpu", .parameters = "cpu"}});
}

TEST(LaterMemoryGpu, StatesOnDiskAreNotThere) {
  const testing::TemporaryFolder folder;
  check_on_gpu(
      folder,
      {{.stage = 3, .optimizer = "nvme", .parameters = "nvme"}});
}

} // namespace
} // namespace cairn::later_memory_gpu_test
