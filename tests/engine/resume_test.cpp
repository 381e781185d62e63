#include "engine/resume.h"

namespace cairn::resume_test {
namespace {

TEST(Resume, IsTheSameBits) {
  testing::resume::expect_same_bits({.ranks = 2});
}

} // namespace
} // namespace cairn::resume_test
