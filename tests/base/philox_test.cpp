#include "base/internal/philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::philox_test {
namespace {

using ::testing::ElementsAre;

TEST(Philox, KnownAnswersOfRandom123) {
  EXPECT_THAT(
      Philox4x32::at(0, 0, 0).words,
      ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(
      Philox4x32::at(~0ULL, ~0ULL, ~0ULL).words,
      ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(
      Philox4x32::at(
          0x85a308d3'243f6a88,
          0x03707344'13198a2e,
          0x299f31d0'a4093822)
          .words,
      ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Philox, WorksAtCompileTime) {
  static_assert(Philox4x32::at(0, 0, 0).words[0] == 0x6627e8d5);
  static_assert(Philox4x32::at(0, 0, 0).pair(0) == 0xe169c58d6627e8d5);
  static_assert(Philox4x32::at(0, 0, 0).pair(1) == 0x9b00dbd8bc57ac4c);
}

} // namespace
} // namespace cairn::philox_test
