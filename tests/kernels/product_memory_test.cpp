#include "kernels/cuda/product_memory.h"

#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace cairn::kernels::cuda::product_memory_test {
namespace {

using testing::TemporaryFolder;

TEST(ProductMemory, IsThereForTheNextProcess) {
  const TemporaryFolder folder;
  const auto file = folder / "a" / "b.txt";
  ProductMemory first(file);
  ProductMemory beside(file); // another rank
  EXPECT_EQ(first.find("64x64x64"), std::nullopt);
  first.add("64x64x64", 3);
  beside.add("8x8x8", 0);
  first.add("64x64x64", 5);
  EXPECT_EQ(first.find("64x64x64"), 5);
  const ProductMemory next(file);
  EXPECT_EQ(next.find("64x64x64"), 5);
  EXPECT_EQ(next.find("8x8x8"), 0);
}

TEST(ProductMemory, PassesOverWhatIsNoLineOfIts) {
  const TemporaryFolder folder;
  const auto file = folder / "file";
  std::ofstream(file) << "\n12\n-1 a\n99999999999999999999 b\n2000 c\nx d\n"
                      << std::string(1 << 16, '7') << "\n7 whole line\n4 cut";
  const ProductMemory memory(file);
  EXPECT_EQ(memory.find("a"), std::nullopt);
  EXPECT_EQ(memory.find("b"), std::nullopt);
  EXPECT_EQ(memory.find("c"), std::nullopt);
  EXPECT_EQ(memory.find("d"), std::nullopt);
  EXPECT_EQ(memory.find("whole line"), 7);
}

TEST(ProductMemory, DoesWithoutAFile) {
  ProductMemory none{std::filesystem::path()};
  none.add("8x8x8", 1);
  EXPECT_EQ(none.find("8x8x8"), 1);
  ProductMemory unwritable("/proc/nothing/here");
  unwritable.add("8x8x8", 1);
  EXPECT_EQ(unwritable.find("8x8x8"), 1);
}

TEST(ProductMemory, HasAFileForEachGpuAndVersion) {
  const char* const before = std::getenv("CAIRN_CACHE_DIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("CAIRN_CACHE_DIR", "/cache", 1);
  EXPECT_EQ(
      product_memory_file("NVIDIA H200/../x", 130100).string(),
      "/cache/products/NVIDIA-H200----x-cublaslt-130100.txt");
  before == nullptr ? unsetenv("CAIRN_CACHE_DIR")
                    : setenv("CAIRN_CACHE_DIR", kept.c_str(), 1);
}

} // namespace
} // namespace cairn::kernels::cuda::product_memory_test
