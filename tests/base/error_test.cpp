#include <cairn/base/error.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::error_test {
namespace {

TEST(Error, SaysWhereWhatValuesAndRemedy) {
  const ConfigError error(
      {.what = "unknown key \"stge\"",
       .where = "ds.json:3:5",
       .values = "value 2",
       .remedy = "did you mean \"stage\"?"});
  EXPECT_STREQ(
      error.what(),
      "ds.json:3:5: unknown key \"stge\" (value 2); did you mean \"stage\"?");
  EXPECT_EQ(error.problem().where, "ds.json:3:5");
  EXPECT_EQ(error.problem().remedy, "did you mean \"stage\"?");
}

TEST(Error, LeavesOutWhatIsEmpty) {
  EXPECT_STREQ(Error({.what = "torn"}).what(), "torn");
  EXPECT_STREQ(Error({.what = "torn", .where = "a"}).what(), "a: torn");
  EXPECT_STREQ(
      Error({.what = "torn", .values = "3 of 5"}).what(),
      "torn (3 of 5)");
  EXPECT_STREQ(
      Error({.what = "torn", .remedy = "retry"}).what(),
      "torn; retry");
}

TEST(Error, KindsAreCaughtApart) {
  EXPECT_THROW(throw CommError({.what = "lost"}), CommError);
  EXPECT_THROW(throw CommError({.what = "lost"}), Error);
  EXPECT_THROW(throw UsageError({.what = "out of order"}), UsageError);
  try {
    throw DataError({.what = "short"});
  } catch (const ConfigError&) {
    FAIL() << "a DataError is no ConfigError";
  } catch (const DataError& error) {
    EXPECT_EQ(error.problem().what, "short");
  }
}

} // namespace
} // namespace cairn::error_test
