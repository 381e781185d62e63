#include "engine/resume.h"

#include <chrono>

namespace cairn::resume_test {
namespace {

TEST(Resume, IsTheSameBits) {
  // Every way of training in turn: half a minute on a busy machine.
  testing::resume::expect_same_bits(
      {.ranks = 2, .limit = std::chrono::seconds(200)});
}

} // namespace
} // namespace cairn::resume_test
