#include <ATen/ATen.h>
#include <cairn/data/collate.h>
#include <cairn/data/loader.h>
#include <cairn/data/tensor_batch.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace cairn::data::tensor_batch_gpu_test {
namespace {

TEST(TensorBatchGpu, PinnedBatchesReachTheGpuWholeWhileNewOnesAreMade) {
  constexpr std::int64_t batches = 200;
  constexpr std::size_t columns = 4096;
  const HostAllocator allocate = pinned_allocator();
  SequentialSampler sampler({.total_samples = batches});
  Loader loader(
      [sampler]() mutable { return sampler.next(); },
      [&](std::span<const std::int64_t> indices, Batch& batch) {
        batch.add("tokens", ElementType::int64, 1, columns, allocate);
        for (std::int64_t& token : batch.fields[0].int64s()) {
          token = indices[0];
        }
      },
      {.workers = 2});
  std::vector<at::Tensor> sums;
  while (const auto batch = loader.next()) {
    const TensorBatch host(*batch);
    ASSERT_TRUE(host["tokens"].is_pinned());
    // The host copy is given back at once; the copy may still be running.
    sums.push_back(host.to(at::kCUDA)["tokens"].sum());
  }
  ASSERT_EQ(sums.size(), batches);
  for (std::int64_t i = 0; i < batches; ++i) {
    EXPECT_EQ(
        sums[static_cast<std::size_t>(i)].item<std::int64_t>(),
        i * static_cast<std::int64_t>(columns));
  }
}

} // namespace
} // namespace cairn::data::tensor_batch_gpu_test
