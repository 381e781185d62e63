// A real language model and real vocabularies, where the packages that carry
// them have been fetched.

#include "support/python.h"

#include <gtest/gtest.h>

namespace cairn::cli::real_files_test {
namespace {

TEST(RealFiles, NarrowWeightsCostALanguageModelLittle) {
  testing::run_python_tool(
      "check_smollm.py",
      {"--cairn", CAIRN_BINARY_DIR "/bin/cairn"});
}

TEST(RealFiles, VocabulariesGiveTheIdsOfTheirLibraries) {
  testing::run_python_tool(
      "check_vocabularies.py",
      {"--cairn", CAIRN_BINARY_DIR "/bin/cairn"});
}

} // namespace
} // namespace cairn::cli::real_files_test
