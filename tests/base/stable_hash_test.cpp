#include "base/internal/stable_hash.h"

#include <gtest/gtest.h>

namespace cairn::stable_hash_test {
namespace {

TEST(StableHash, IsFnv1a) {
  // Values from the table of the hash's authors.
  EXPECT_EQ(stable_hash(""), 0xcbf29ce484222325);
  EXPECT_EQ(stable_hash("a"), 0xaf63dc4c8601ec8c);
  EXPECT_EQ(stable_hash("foobar"), 0x85944171f73967e8);
  EXPECT_EQ(stable_hash("chongo was here!\n"), 0x46810940eff5f915);
  EXPECT_NE(stable_hash("\xff"), stable_hash("\x7f"));
  static_assert(stable_hash("foobar") == 0x85944171f73967e8);
}

} // namespace
} // namespace cairn::stable_hash_test
