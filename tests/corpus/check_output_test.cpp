#include <cairn/base/error.h>

#include "corpus/internal/check_output.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>

namespace cairn::corpus::check_output_test {
namespace {

namespace fs = std::filesystem;

TEST(CheckOutput, NeverLetsAnInputBeReplaced) {
  const testing::TemporaryFolder folder;
  const std::array<fs::path, 2> inputs{
      folder.write("a", "1"),
      folder.write("b", "2")};
  const fs::path link = folder / "link";
  fs::create_symlink(inputs[1], link);
  for (const bool overwrite : {false, true}) {
    EXPECT_THROW(check_output(inputs, inputs[1], overwrite), ConfigError);
    EXPECT_THROW(check_output(inputs, link, overwrite), ConfigError);
    EXPECT_NO_THROW(check_output(inputs, folder / "new", overwrite));
    EXPECT_NO_THROW(check_output(inputs, "-", overwrite));
    EXPECT_NO_THROW(check_output(inputs, "/dev/null", overwrite));
    EXPECT_NO_THROW(check_output(inputs, folder.path(), overwrite));
  }
  const fs::path old = folder.write("old", "3");
  EXPECT_THROW(check_output(inputs, old, false), DataError);
  EXPECT_NO_THROW(check_output(inputs, old, true));
}

} // namespace
} // namespace cairn::corpus::check_output_test
