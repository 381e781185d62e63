#include "distributed/group_suite.h"

// The suite for NCCL, whose ranks share one GPU. The processes are forked
// before anything touches CUDA.

namespace cairn::distributed::group_suite {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Nccl,
    GroupSuite,
    ::testing::Values(Setting{"nccl", 2}, Setting{"nccl", 4}),
    [](const auto& setting) { return name_of(setting.param); });

} // namespace
} // namespace cairn::distributed::group_suite
