#include "data/internal/index_agreement.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <cairn/data/gpt_datasets.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <string>

namespace cairn::data::index_agreement_test {
namespace {

using ::testing::HasSubstr;

AllGather over(const distributed::ProcessGroup& group) {
  return [&group](std::uint64_t mine) {
    const at::Tensor own =
        at::full({1}, std::bit_cast<std::int64_t>(mine), at::kLong);
    at::Tensor all = at::empty({group.size()}, at::kLong);
    group.all_gather_into(all, own).wait();
    const auto* values = all.const_data_ptr<std::int64_t>();
    std::vector<std::uint64_t> result;
    for (int rank = 0; rank < group.size(); ++rank) {
      result.push_back(std::bit_cast<std::uint64_t>(values[rank]));
    }
    return result;
  };
}

/// Builds index files of its own, as on a machine that shares no disk.
std::uint64_t checksum_with_seed(std::uint32_t seed) {
  const testing::TemporaryFolder folder;
  const GptDatasets data = build_gpt_datasets(
      {.data =
           {.blend = Blend::parse(
                std::vector<std::string>{CAIRN_GOLDEN_DIR "/gpt_dataset/a"}),
            .split = "949,50,1",
            .samples = {{40, 4, 0}},
            .cache_path = folder.path()},
       .sequence_length = 32,
       .seed = seed},
      Logger({.least = LogLevel::error}));
  return data.checksum();
}

TEST(IndexAgreement, RanksOfAJobFindTheSameOrder) {
  testing::run_ranks(2, [](const distributed::ProcessGroup& group) {
    require_agreement("samples", checksum_with_seed(1234), over(group));
  });
}

TEST(IndexAgreement, NamesTheRankThatHasAnother) {
  testing::run_ranks(3, [](const distributed::ProcessGroup& group) {
    const std::uint32_t seed = group.rank() == 2 ? 7 : 1234;
    try {
      require_agreement("samples", checksum_with_seed(seed), over(group));
      ADD_FAILURE() << "another order was not found";
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 2"));
    }
  });
}

} // namespace
} // namespace cairn::data::index_agreement_test
