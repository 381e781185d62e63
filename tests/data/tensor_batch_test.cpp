#include <cairn/data/tensor_batch.h>

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

namespace cairn::data::tensor_batch_test {
namespace {

Batch small_batch(const HostAllocator& allocate) {
  Batch batch;
  batch.indices = {4, 5};
  batch.consumed_samples = 6;
  batch.add("tokens", ElementType::int64, 2, 3, allocate);
  batch.add("loss_mask", ElementType::float32, 2, 3, allocate);
  for (std::size_t i = 0; i < 6; ++i) {
    batch.fields[0].int64s()[i] = static_cast<std::int64_t>(i);
    batch.fields[1].floats()[i] = static_cast<float>(i) / 2;
  }
  return batch;
}

TEST(TensorBatch, SharesTheMemoryOfTheBatch) {
  std::weak_ptr<std::byte> memory;
  at::Tensor tokens;
  {
    const Batch batch = small_batch(allocate_host);
    memory = batch.fields[0].memory;
    const TensorBatch tensors(batch);
    EXPECT_EQ(tensors.indices, batch.indices);
    EXPECT_EQ(tensors.consumed_samples, 6);
    tokens = tensors["tokens"];
    EXPECT_EQ(
        tokens.data_ptr(),
        static_cast<void*>(batch.fields[0].memory.get()));
    EXPECT_TRUE(
        at::equal(tensors["loss_mask"], at::arange(6).view({2, 3}) / 2.0));
    EXPECT_THROW(tensors["labels"], InternalError);
  }
  // The batch is gone, the tensor holds on to its memory.
  EXPECT_FALSE(memory.expired());
  EXPECT_TRUE(at::equal(tokens, at::arange(6, at::kLong).view({2, 3})));
  tokens.reset();
  EXPECT_TRUE(memory.expired());
}

TEST(TensorBatch, AnEmptyBatch) {
  Batch batch;
  batch.add("tokens", ElementType::int64, 0, 3, allocate_host);
  EXPECT_EQ(TensorBatch(batch)["tokens"].sizes(), at::IntArrayRef({0, 3}));
}

TEST(TensorBatch, ToTheSameDeviceIsNoCopy) {
  const TensorBatch tensors(small_batch(allocate_host));
  EXPECT_EQ(
      tensors.to(at::kCPU)["tokens"].data_ptr(),
      tensors["tokens"].data_ptr());
}

TEST(TensorBatch, PinnedMemoryWithoutAGpuIsAnError) {
  if (at::hasCUDA()) {
    GTEST_SKIP() << "there is a GPU";
  }
  EXPECT_THROW(pinned_allocator(), ConfigError);
}

} // namespace
} // namespace cairn::data::tensor_batch_test
