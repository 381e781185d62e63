#!/usr/bin/env bash
# Kills ranks of a training so many times (default 200) and checks that it ends
# with the weights of the undisturbed run.
#
#   tools/kill_drill.sh [KILLS] [BUILD]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${2:-$root/build/dev}
cmake --build "$build" --target cli_test
CAIRN_DRILL_KILLS=${1:-200} exec "$build/tests/cli/cli_test" --gtest_filter=KillDrill.*
