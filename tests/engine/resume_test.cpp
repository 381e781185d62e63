#include "engine/resume.h"

#include <chrono>

namespace cairn::resume_test {
namespace {

class Resume : public ::testing::TestWithParam<int> {};

TEST_P(Resume, IsTheSameBits) {
  // Every way of training in turn: half a minute for all stages on a busy
  // machine.
  testing::resume::expect_same_bits(
      GetParam(),
      {.ranks = 2, .limit = std::chrono::seconds(200)});
}

INSTANTIATE_TEST_SUITE_P(Stage, Resume, ::testing::Range(0, 4));

} // namespace
} // namespace cairn::resume_test
