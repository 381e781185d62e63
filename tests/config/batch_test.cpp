#include "support/error_text.h"

#include <cairn/config/batch_config.h>

#include <gtest/gtest.h>

#include <cstdint>

namespace cairn::config::batch_test {
namespace {

std::string error_of(const BatchRequest& request, std::int64_t ranks) {
  return error_text([&] { resolve_batch(request, ranks, "ds.json:2:3"); });
}

TEST(Batch, FillsInWhatIsMissing) {
  EXPECT_EQ(
      resolve_batch({.train_batch_size = 32}, 4),
      (BatchConfig{
          .train = 32,
          .micro = 8,
          .accumulation = 1,
          .data_parallel = 4}));
  EXPECT_EQ(
      resolve_batch({.train_micro_batch_size_per_gpu = 3}, 4),
      (BatchConfig{
          .train = 12,
          .micro = 3,
          .accumulation = 1,
          .data_parallel = 4}));
  EXPECT_EQ(
      resolve_batch(
          {.train_batch_size = 32, .train_micro_batch_size_per_gpu = 2},
          4),
      (BatchConfig{
          .train = 32,
          .micro = 2,
          .accumulation = 4,
          .data_parallel = 4}));
  EXPECT_EQ(
      resolve_batch(
          {.train_batch_size = 32, .gradient_accumulation_steps = 2},
          4),
      (BatchConfig{
          .train = 32,
          .micro = 4,
          .accumulation = 2,
          .data_parallel = 4}));
}

TEST(Batch, AMismatchShowsAllFactorsAndTheWaysOut) {
  EXPECT_EQ(
      error_of(
          {.train_batch_size = 32,
           .train_micro_batch_size_per_gpu = 4,
           .gradient_accumulation_steps = 2},
          2),
      "ds.json:2:3: train_batch_size 32 is not train_micro_batch_size_per_gpu "
      "4 x gradient_accumulation_steps 2 x data-parallel size 2 = 16; set "
      "train_batch_size to 16, or gradient_accumulation_steps to 4, or "
      "train_micro_batch_size_per_gpu to 8, or run with data-parallel size 4");
  EXPECT_EQ(
      error_of(
          {.train_batch_size = 32,
           .train_micro_batch_size_per_gpu = 4,
           .gradient_accumulation_steps = 3},
          2),
      "ds.json:2:3: train_batch_size 32 is not train_micro_batch_size_per_gpu "
      "4 x gradient_accumulation_steps 3 x data-parallel size 2 = 24; set "
      "train_batch_size to 24, or gradient_accumulation_steps to 4; another "
      "number of ranks alone does not help, as 32 is not divisible by 12");
}

TEST(Batch, WaysOutThatDoNotDivideAreNotOffered) {
  const std::string text = error_of(
      {.train_batch_size = 33,
       .train_micro_batch_size_per_gpu = 4,
       .gradient_accumulation_steps = 2},
      2);
  EXPECT_NE(
      text.find("set train_batch_size to 16, or give "),
      std::string::npos)
      << text;
}

TEST(Batch, DerivedFactorsAreMarked) {
  EXPECT_EQ(
      error_of({.train_batch_size = 8}, 3),
      "ds.json:2:3: train_batch_size 8 is not train_micro_batch_size_per_gpu "
      "2 (derived) x gradient_accumulation_steps 1 (derived) x data-parallel "
      "size 3 = 6; set train_batch_size to 6 or 9, or give "
      "train_micro_batch_size_per_gpu instead of it, or run with data-parallel "
      "size 2");
  EXPECT_EQ(
      error_of(
          {.train_batch_size = 20, .train_micro_batch_size_per_gpu = 4},
          2),
      "ds.json:2:3: train_batch_size 20 is not train_micro_batch_size_per_gpu "
      "4 x gradient_accumulation_steps 2 (derived) x data-parallel size 2 = "
      "16; set train_batch_size to 16 or 24, or train_micro_batch_size_per_gpu "
      "x gradient_accumulation_steps to 10, or run with data-parallel size 1");
}

TEST(Batch, NothingGiven) {
  EXPECT_EQ(
      error_of({}, 2),
      "ds.json:2:3: the batch size is missing; give train_batch_size "
      "(--global-batch-size) or train_micro_batch_size_per_gpu "
      "(--micro-batch-size)");
}

TEST(Batch, ZeroAndTooSmall) {
  EXPECT_EQ(
      error_of({.train_batch_size = 2}, 4),
      "ds.json:2:3: train_micro_batch_size_per_gpu is 0 (derived), it has to "
      "be greater than 0 (train_batch_size 2, train_micro_batch_size_per_gpu "
      "not given, "
      "gradient_accumulation_steps not given, data-parallel size 4); "
      "train_batch_size must be at least the data-parallel size, and each of "
      "the three at least 1");
  EXPECT_NE(
      error_of({.train_batch_size = 8, .train_micro_batch_size_per_gpu = 0}, 1)
          .find("train_micro_batch_size_per_gpu is 0"),
      std::string::npos);
  EXPECT_EQ(
      error_of({.train_micro_batch_size_per_gpu = 0}, 2),
      "ds.json:2:3: train_micro_batch_size_per_gpu is 0, it has to be greater "
      "than 0 (train_batch_size not given, train_micro_batch_size_per_gpu 0, "
      "gradient_accumulation_steps not given, data-parallel size 2); "
      "train_batch_size must be at least the data-parallel size, and each of "
      "the three at least 1");
  EXPECT_NE(error_of({.train_batch_size = 8}, 0), "");
}

TEST(Batch, ExtremesDoNotOverflow) {
  const std::int64_t huge = INT64_MAX;
  EXPECT_NE(
      error_of(
          {.train_micro_batch_size_per_gpu = huge,
           .gradient_accumulation_steps = huge},
          huge)
          .find("too large to count"),
      std::string::npos);
  EXPECT_NE(
      error_of(
          {.train_batch_size = INT64_MIN, .train_micro_batch_size_per_gpu = -1},
          1),
      "");
  EXPECT_NE(
      error_of(
          {.train_batch_size = huge,
           .train_micro_batch_size_per_gpu = huge,
           .gradient_accumulation_steps = 1},
          2),
      "");
}

TEST(Batch, Describes) {
  EXPECT_EQ(
      describe(
          {.train = 32, .micro = 4, .accumulation = 4, .data_parallel = 2}),
      "effective batch 32 = 4 per rank x 4 accumulation x 2 data-parallel");
}

} // namespace
} // namespace cairn::config::batch_test
