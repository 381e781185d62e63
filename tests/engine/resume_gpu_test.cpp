#include "engine/resume.h"

namespace cairn::resume_gpu_test {
namespace {

/// Dropout draws from the GPU's own generator.
TEST(ResumeGpu, IsTheSameBits) {
  testing::resume::expect_same_bits(
      {.ranks = 1,
       .backend = distributed::BackendChoice::automatic,
       .limit = std::chrono::seconds(200)});
}

TEST(ResumeGpu, IsTheSameBitsForTwoRanks) {
  testing::resume::expect_same_bits(
      {.ranks = 2,
       .backend = distributed::BackendChoice::gloo_on_gpu,
       .limit = std::chrono::seconds(200)});
}

} // namespace
} // namespace cairn::resume_gpu_test
