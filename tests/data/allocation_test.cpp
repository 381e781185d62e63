// Datasets promise that reading allocates nothing once a sample has been used:
// this file counts.

#include "data/byte_tokenizer.h"
#include "data/masked_golden.h"
#include "support/temporary_folder.h"

#include <cairn/data/character_text_dataset.h>
#include <cairn/data/cifar10_dataset.h>
#include <cairn/data/masked_datasets.h>
#include <cairn/data/mlm_dataset.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace {

thread_local long allocations = 0;

} // namespace

// Arrays go through the plain forms; so does std::nothrow, except where a
// sanitizer has its own. Over-aligned memory is not counted.
void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) {
    return memory;
  }
  throw std::bad_alloc();
}

void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace cairn::data::allocation_test {
namespace {

using namespace fixtures;

/// Allocations of reading all samples, when all have been read before.
template <typename Dataset>
long allocations_of(const Dataset& dataset) {
  typename Dataset::Sample sample;
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    dataset.read(i, sample);
  }
  const long before = allocations;
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    dataset.read(i, sample);
  }
  return allocations - before;
}

TEST(Allocation, IsCounted) {
  const long before = allocations;
  const std::vector<int> some(100);
  EXPECT_EQ(allocations - before, 1);
  EXPECT_EQ(some[99], 0);
}

TEST(Allocation, MaskedDatasetsMakeNone) {
  BertOptions bert{.sequence_length = 96};
  EXPECT_EQ(
      allocations_of(BertDataset(
          golden_sentences(),
          ElementRange{0, 64},
          golden_vocabulary(),
          bert)),
      0);
  bert.masking.permute = true;
  EXPECT_EQ(
      allocations_of(BertDataset(
          golden_sentences(),
          ElementRange{0, 64},
          golden_vocabulary(),
          bert)),
      0);
  EXPECT_EQ(
      allocations_of(T5Dataset(
          golden_sentences(),
          ElementRange{0, 64},
          golden_vocabulary(),
          {.sequence_length = 96})),
      0);
}

TEST(Allocation, OtherDatasetsMakeNone) {
  const cairn::testing::TemporaryFolder folder;
  const std::vector<std::string_view> lines = {"a", "some text", "more of it"};
  EXPECT_EQ(allocations_of(MlmDataset(lines, ByteTokenizer(), {})), 0);
  const std::string text = folder.write("text", std::string(100, 'x'));
  EXPECT_EQ(
      allocations_of(
          open_character_text(text, ByteTokenizer(), {.block_size = 8}).train),
      0);
  const std::string images = folder.write("images", std::string(3073, 3));
  EXPECT_EQ(allocations_of(Cifar10Dataset(images)), 0);
}

} // namespace
} // namespace cairn::data::allocation_test
