// A real BERT, where the package with its weights has been fetched.

#include "support/python.h"

#include <gtest/gtest.h>

namespace cairn::cli::minilm_test {
namespace {

TEST(MiniLm, EmbedsSentencesAsTransformersDoes) {
  testing::run_python_tool(
      "check_minilm.py",
      {"--cairn", CAIRN_BINARY_DIR "/bin/cairn"});
}

} // namespace
} // namespace cairn::cli::minilm_test
