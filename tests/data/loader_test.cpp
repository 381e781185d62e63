#include <cairn/data/loader.h>

#include "data/gpt_golden.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/data/collate.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace cairn::data::loader_test {
namespace {

using namespace std::chrono_literals;
using testing::TemporaryFolder;
using Indices = std::vector<std::int64_t>;

/// A dataset that a user might have.
struct Squares {
  struct Sample {
    std::vector<std::int64_t> value;
    std::vector<float> half;
    std::int64_t index = 0;
  };
  void read(std::size_t index, Sample& sample) const {
    const auto i = static_cast<std::int64_t>(index);
    // Later batches are done first; the loader must keep the order.
    std::this_thread::sleep_for(std::chrono::microseconds(300 - i % 300));
    sample.value = {i, i * i};
    sample.half = {static_cast<float>(i) / 2};
    sample.index = i;
  }
};

template <typename Visitor>
void visit_fields(const Squares::Sample& sample, Visitor&& visit) {
  visit("value", sample.value);
  visit("half", sample.half);
  visit("index", sample.index);
}

Loader::Sampler in_order(std::int64_t total, std::int64_t consumed = 0) {
  SequentialSampler sampler(
      {.total_samples = total,
       .consumed_samples = consumed,
       .micro_batch_size = 3});
  return [sampler]() mutable { return sampler.next(); };
}

Loader::Collate squares() {
  return [](std::span<const std::int64_t> indices, Batch& batch) {
    collate(Squares{}, indices, allocate_host, batch);
  };
}

TEST(Loader, BatchesComeInOrderFromAnyNumberOfWorkers) {
  for (const std::size_t workers : {0, 1, 2, 5}) {
    Loader loader(in_order(30), squares(), {.workers = workers});
    std::int64_t next = 0;
    while (const auto batch = loader.next()) {
      EXPECT_EQ(batch->indices, (Indices{next, next + 1, next + 2}));
      const auto values = (*batch)["value"].int64s();
      EXPECT_EQ(
          Indices(values.begin(), values.end()),
          (Indices{
              next,
              next * next,
              next + 1,
              (next + 1) * (next + 1),
              next + 2,
              (next + 2) * (next + 2)}));
      EXPECT_EQ((*batch)["half"].floats()[1], static_cast<float>(next + 1) / 2);
      EXPECT_EQ((*batch)["index"].int64s()[2], next + 2);
      next += 3;
      EXPECT_EQ(batch->consumed_samples, next);
    }
    EXPECT_EQ(next, 30);
    EXPECT_FALSE(loader.next());
  }
}

TEST(Loader, StopsInTheMiddleAndGoesOnThere) {
  std::int64_t consumed = 0;
  {
    Loader loader(in_order(3000), squares(), {.workers = 3, .prefetch = 4});
    for (int i = 0; i < 5; ++i) {
      consumed = loader.next()->consumed_samples;
    }
  }
  EXPECT_EQ(consumed, 15);
  Loader loader(in_order(3000, consumed), squares(), {});
  EXPECT_EQ(loader.next()->indices, (Indices{15, 16, 17}));
}

TEST(Loader, MakesNoMoreThanItMay) {
  std::atomic<int> made = 0;
  Loader loader(
      in_order(300),
      [&](std::span<const std::int64_t>, Batch&) { ++made; },
      {.workers = 2, .prefetch = 3});
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(made, 6);
  loader.next();
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(made, 7);
}

TEST(Loader, WhatReadingThrowsReachesTheReaderInItsPlace) {
  for (const std::size_t workers : {0, 1, 3}) {
    Loader loader(
        in_order(12),
        [](std::span<const std::int64_t> indices, Batch&) {
          if (indices[0] == 6) {
            throw DataError({.what = "a broken sample"});
          }
        },
        {.workers = workers});
    EXPECT_EQ(loader.next()->indices[0], 0);
    EXPECT_EQ(loader.next()->indices[0], 3);
    EXPECT_THROW(loader.next(), DataError);
    EXPECT_EQ(loader.next()->indices[0], 9);
    EXPECT_FALSE(loader.next());
  }
}

TEST(Loader, ASamplerThatThrowsEndsIt) {
  int calls = 0;
  Loader loader(
      [&]() -> std::optional<IndexBatch> {
        if (++calls == 2) {
          throw DataError({.what = "no"});
        }
        return IndexBatch{{1}, 1};
      },
      [](std::span<const std::int64_t>, Batch&) {},
      {.workers = 2});
  EXPECT_TRUE(loader.next());
  EXPECT_THROW(loader.next(), DataError);
  EXPECT_FALSE(loader.next());
}

TEST(Loader, EndsWhenNobodyReads) {
  const Loader loader(in_order(3000), squares(), {.workers = 4});
  std::this_thread::sleep_for(5ms);
}

TEST(Collate, AnEmptyBatchHasItsFields) {
  struct Sized : Squares {
    std::size_t size() const { return 9; }
  };
  Batch batch;
  collate(Sized{}, Indices{}, allocate_host, batch);
  ASSERT_EQ(batch.fields.size(), 3U);
  EXPECT_EQ(batch["value"].rows, 0U);
  EXPECT_EQ(batch["value"].columns, 2U);
  EXPECT_TRUE(batch["half"].floats().empty());
  Batch unsized;
  collate(Squares{}, Indices{}, allocate_host, unsized);
  EXPECT_TRUE(unsized["value"].int64s().empty());
}

TEST(Collate, GptRowsAreThoseOfTheDataset) {
  const TemporaryFolder folder;
  const GptDataOptions options{
      .data =
          {.blend = Blend{{gpt_golden("a").string(), gpt_golden("b").string()}},
           .split = "1,0,0",
           .samples = {100, 0, 0},
           .cache_path = folder.path()},
      .sequence_length = 16,
      .sample = {.eod = 0, .reset_position_ids = true, .eod_mask_loss = true}};
  const GptDatasets data = build_gpt_datasets(options, quiet());
  const BlendedGptDataset& train = *data[Split::train];
  std::size_t allocated = 0;
  Batch batch;
  collate(
      train,
      Indices{5, 99},
      [&](std::size_t bytes) {
        allocated += bytes;
        return allocate_host(bytes);
      },
      batch);
  EXPECT_EQ(allocated, 2 * 16 * (8 + 8 + 4 + 8));
  GptSample sample;
  train.read(99, sample);
  const auto row = [&](const char* name) {
    const auto all = batch[name].int64s();
    return Indices(all.begin() + 16, all.end());
  };
  EXPECT_EQ(row("tokens"), sample.tokens);
  EXPECT_EQ(row("labels"), sample.labels);
  EXPECT_EQ(row("position_ids"), sample.position_ids);
  const auto mask = batch["loss_mask"].floats();
  EXPECT_EQ(
      std::vector<float>(mask.begin() + 16, mask.end()),
      sample.loss_mask);
  EXPECT_THROW(batch["text"], InternalError);
  EXPECT_THROW(batch["tokens"].floats(), InternalError);
}

Batch numbered(std::size_t rows, std::size_t columns) {
  Batch batch;
  for (const std::string name : {"tokens", "position_ids"}) {
    batch.add(name, ElementType::int64, rows, columns, allocate_host);
    const auto values = batch.fields.back().int64s();
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<std::int64_t>(name == "tokens" ? i : i % columns);
    }
  }
  return batch;
}

Indices values_of(const BatchField& field) {
  const auto values = field.int64s();
  return {values.begin(), values.end()};
}

TEST(Batch, IsCutToALength) {
  Batch batch = numbered(3, 5);
  truncate(batch, 2);
  EXPECT_EQ(values_of(batch["tokens"]), (Indices{0, 1, 5, 6, 10, 11}));
  EXPECT_EQ(values_of(batch["position_ids"]), (Indices{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(batch["tokens"].rows, 3);
  truncate(batch, 9);
  EXPECT_EQ(batch["tokens"].columns, 2);
}

TEST(Batch, IsReshapedToALength) {
  Batch batch = numbered(2, 5);
  batch["position_ids"].int64s()[3] = 0; // a document begins
  reshape(batch, 2);
  EXPECT_EQ(batch["tokens"].rows, 4);
  EXPECT_EQ(values_of(batch["tokens"]), (Indices{0, 1, 2, 3, 5, 6, 7, 8}));
  EXPECT_EQ(
      values_of(batch["position_ids"]),
      (Indices{0, 1, 0, 0, 0, 1, 0, 1}));
  EXPECT_THROW(reshape(batch, 3), InternalError);
}

} // namespace
} // namespace cairn::data::loader_test
