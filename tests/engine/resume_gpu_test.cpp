#include "engine/resume.h"

namespace cairn::resume_gpu_test {
namespace {

class ResumeGpu : public ::testing::TestWithParam<int> {};

/// Dropout draws from the GPU's own generator.
TEST_P(ResumeGpu, IsTheSameBits) {
  testing::resume::expect_same_bits(
      GetParam(),
      {.ranks = 1,
       .backend = distributed::BackendChoice::automatic,
       .limit = std::chrono::seconds(200)});
}

TEST_P(ResumeGpu, IsTheSameBitsForTwoRanks) {
  testing::resume::expect_same_bits(
      GetParam(),
      {.ranks = 2,
       .backend = distributed::BackendChoice::gloo_on_gpu,
       .limit = std::chrono::seconds(200)});
}

INSTANTIATE_TEST_SUITE_P(Stage, ResumeGpu, ::testing::Range(0, 4));

} // namespace
} // namespace cairn::resume_gpu_test
