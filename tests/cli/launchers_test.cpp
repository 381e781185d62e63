// Launchers of others, where they are installed: Slurm, mpirun, torchrun. And
// the schemas of Kubernetes, where a package has them.

#include "support/python.h"

#include <gtest/gtest.h>

namespace cairn::cli::launchers_test {
namespace {

TEST(Launchers, TrainWithTheLossesOfCairnLaunch) {
  testing::run_python_tool(
      "check_launchers.py",
      {"--cairn", CAIRN_BINARY_DIR "/bin/cairn"});
}

TEST(Launchers, KubernetesTakesTheManifests) {
  testing::run_python_tool(
      "check_manifests.py",
      {"--cairn", CAIRN_BINARY_DIR "/bin/cairn"});
}

} // namespace
} // namespace cairn::cli::launchers_test
