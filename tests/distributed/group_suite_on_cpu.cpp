#include "distributed/group_suite.h"

// The suite for the backends that need no GPU.

namespace cairn::distributed::group_suite {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Backends,
    GroupSuite,
    ::testing::Values(
        Setting{"local", 1},
        Setting{"gloo", 1},
        Setting{"gloo", 2},
        Setting{"gloo", 3},
        Setting{"gloo", 4},
        Setting{"gloo", 2, true},
        Setting{"gloo", 3, true},
        Setting{"gloo", 4, true}),
    [](const auto& setting) { return name_of(setting.param); });

} // namespace
} // namespace cairn::distributed::group_suite
