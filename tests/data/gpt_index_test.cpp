#include <cairn/data/gpt_index.h>

#include "base/internal/numpy_random.h"
#include "data/gpt_golden.h"
#include "data/internal/index_agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace cairn::data::gpt_index_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> shuffled(NumpyRandom& random, std::size_t count) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), T{0});
  random.shuffle(std::span(values));
  return values;
}

TEST(GptIndex, NumpysShufflesOnOneState) {
  for (const json& test : gpt_golden_cases("numpy_shuffle.json")) {
    NumpyRandom random(test.at("seed").get<std::uint32_t>());
    EXPECT_EQ(
        shuffled<std::int32_t>(random, 25),
        test.at("shuffle_25_int32").get<std::vector<std::int32_t>>());
    EXPECT_EQ(
        shuffled<std::uint32_t>(random, 300),
        test.at("then_shuffle_300_uint32").get<std::vector<std::uint32_t>>());
  }
}

GptIndexRequest request_of(std::int64_t documents, std::int64_t samples) {
  return {
      .documents = {0, documents},
      .samples = samples,
      .sequence_length = 10};
}

TEST(GptIndexPlan, CountsEpochsWithoutLooping) {
  // 100 tokens: 9 samples of 10, and one token more for the last label.
  const auto plan = [](std::int64_t samples) {
    return GptIndexPlan::make(request_of(5, samples), 100);
  };
  EXPECT_EQ(plan(9).epochs, 1);
  EXPECT_EQ(plan(10).epochs, 2);
  EXPECT_EQ(plan(19).epochs, 2);
  EXPECT_EQ(plan(20).epochs, 3);
  EXPECT_EQ(plan(20).samples, 29);
  // More than 80% of the last epoch's 9 samples: 7 from it on.
  EXPECT_TRUE(plan(15).separate_last_epoch);
  EXPECT_FALSE(plan(16).separate_last_epoch);
  EXPECT_EQ(plan(1'000'000'000).epochs, 100'000'001);
}

TEST(GptIndexPlan, TheSizeItGivesIsThatOfTheArrays) {
  const auto request = request_of(5, 33);
  const auto plan = GptIndexPlan::make(request, 100);
  const GptIndex index = build_gpt_index(
      request,
      plan,
      [](std::size_t, std::span<std::int32_t> out) {
        std::fill(out.begin(), out.end(), 20);
      });
  EXPECT_EQ(
      plan.bytes(request),
      index.documents.bytes().size() + index.samples.bytes().size() +
          index.shuffle.bytes().size());
}

LengthReader reader_of(const std::vector<std::int32_t>& lengths) {
  return [&](std::size_t first, std::span<std::int32_t> out) {
    std::copy_n(
        lengths.begin() + static_cast<std::ptrdiff_t>(first),
        out.size(),
        out.begin());
  };
}

/// The beginnings of samples, found token by token.
std::vector<std::int32_t> cut_slowly(
    const GptIndex& index,
    const std::vector<std::int32_t>& lengths,
    const GptIndexRequest& request) {
  std::vector<std::int32_t> begins;
  std::int64_t position = 0;
  const auto order = index.documents.values<std::int32_t>();
  for (std::size_t at = 0; at < order.size(); ++at) {
    const auto length = lengths[static_cast<std::size_t>(order[at])];
    for (std::int32_t offset = 0; offset < length; ++offset, ++position) {
      if (position % request.sequence_length == 0) {
        begins.push_back(static_cast<std::int32_t>(at));
        begins.push_back(offset);
      }
    }
  }
  begins.resize(index.samples.size());
  return begins;
}

// There are lengths above 65535, and more documents than are looked up at once.
TEST(GptIndex, SamplesBeginWhereCountingTokensLeads) {
  for (const std::int32_t longest : {7, 300, 70000}) {
    std::vector<std::int32_t> lengths;
    NumpyRandom random(3);
    for (int i = 0; i < 9000; ++i) {
      lengths.push_back(static_cast<std::int32_t>(random.randint(0, 9)));
    }
    lengths[1234] = longest;
    lengths[8999] = longest - 1;
    const GptIndexRequest request{.documents = {0, 9000}, .sequence_length = 8};
    const auto tokens =
        std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    const GptIndex index = build_gpt_index(
        request,
        GptIndexPlan::make(request, tokens),
        reader_of(lengths));
    const auto samples = index.samples.values<std::int32_t>();
    EXPECT_EQ(
        std::vector<std::int32_t>(samples.begin(), samples.end()),
        cut_slowly(index, lengths, request))
        << longest;
  }
}

/// Cuts sample after sample, as Megatron does.
std::vector<std::int64_t> cut_by_sample(
    const GptIndex& index,
    const std::vector<std::int32_t>& lengths,
    const GptIndexRequest& request) {
  const std::int64_t extra = request.extra_token ? 1 : 0;
  std::vector<std::int64_t> begins{0, 0};
  std::size_t at = 0;
  std::int64_t offset = 0;
  while (begins.size() < index.samples.size()) {
    std::int64_t missing = request.sequence_length + extra;
    for (;;) {
      const auto document = static_cast<std::size_t>(index.documents[at]);
      const std::int64_t left = lengths[document] - offset;
      if (left >= missing) {
        offset += missing - extra;
        break;
      }
      if (at + 1 == index.documents.size()) {
        offset = lengths[document] - extra;
        break;
      }
      missing -= left;
      offset = 0;
      ++at;
    }
    begins.push_back(static_cast<std::int64_t>(at));
    begins.push_back(offset);
  }
  return begins;
}

TEST(GptIndex, SamplesBeginWhereMegatronsDoWithAnyOption) {
  NumpyRandom random(7);
  for (int round = 0; round < 200; ++round) {
    const auto count = static_cast<std::size_t>(random.randint(1, 40));
    const auto longest = random.randint(2, 60);
    std::vector<std::int32_t> lengths;
    for (std::size_t i = 0; i < count; ++i) {
      lengths.push_back(static_cast<std::int32_t>(random.randint(0, longest)));
    }
    lengths[0] += 2;
    GptIndexRequest request{
        .documents = {0, static_cast<std::int64_t>(count)},
        .sequence_length = random.randint(2, 20),
        .extra_token = random.randint(0, 2) == 0,
        .drop_last = random.randint(0, 2) == 0,
        .wide_samples = random.randint(0, 2) == 0};
    if (random.randint(0, 2) == 0) {
      request.samples = random.randint(0, 300);
    }
    const auto tokens =
        std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    const GptIndex index = build_gpt_index(
        request,
        GptIndexPlan::make(request, tokens),
        reader_of(lengths));
    EXPECT_EQ(
        index.samples.type(),
        request.wide_samples ? IndexType::int64 : IndexType::int32);
    std::vector<std::int64_t> samples;
    for (std::size_t i = 0; i < index.samples.size(); ++i) {
      samples.push_back(index.samples[i]);
    }
    ASSERT_EQ(samples, cut_by_sample(index, lengths, request)) << round;
  }
}

TEST(GptIndex, ChecksumSeesEveryArray) {
  using Ints = std::vector<std::int32_t>;
  const GptIndex index{
      IndexArray::of(Ints{1, 2}),
      IndexArray::of(Ints{3, 4}),
      IndexArray::of(Ints{5, 6})};
  for (IndexArray GptIndex::*member :
       {&GptIndex::documents, &GptIndex::samples, &GptIndex::shuffle}) {
    GptIndex other = index;
    EXPECT_EQ(other.checksum(), index.checksum());
    other.*member = IndexArray::of(Ints{1, 9});
    EXPECT_NE(other.checksum(), index.checksum());
  }
  EXPECT_NE(
      IndexArray::of(Ints{1, 2}).checksum(),
      IndexArray::of(std::vector<std::uint32_t>{1, 2}).checksum());
}

/// The error of each rank's require_agreement(); empty if there is none.
std::vector<std::string> agree(const std::vector<std::uint64_t>& checksums) {
  std::vector<std::string> said(checksums.size());
  std::vector<std::uint64_t> board(checksums.size());
  std::barrier meeting(static_cast<std::ptrdiff_t>(checksums.size()));
  {
    std::vector<std::jthread> ranks;
    for (std::size_t rank = 0; rank < checksums.size(); ++rank) {
      ranks.emplace_back([&, rank] {
        try {
          require_agreement("samples", checksums[rank], [&](auto mine) {
            board[rank] = mine;
            meeting.arrive_and_wait();
            return board;
          });
        } catch (const DataError& error) {
          said[rank] = error.what();
        }
      });
    }
  }
  return said;
}

TEST(IndexAgreement, RanksThatDifferAreNamedOnAllRanks) {
  for (const std::string& text : agree({7, 7, 7, 7})) {
    EXPECT_EQ(text, "");
  }
  for (const std::string& text : agree({7, 8, 7, 7})) {
    EXPECT_THAT(
        text,
        HasSubstr("rank 1 has another order of samples than the other 3"));
  }
  for (const std::string& text : agree({1, 8, 8, 2, 8})) {
    EXPECT_THAT(
        text,
        HasSubstr("ranks 0, 3 have another order of samples than the other 3"));
  }
  for (const std::string& text : agree({1, 2})) {
    EXPECT_THAT(text, HasSubstr("rank 1 has another order"));
  }
}

} // namespace
} // namespace cairn::data::gpt_index_test
