#!/usr/bin/env bash
# Installs a build into a fresh folder and builds and runs examples/consumer
# against it, as a program outside this tree would: check_consumer.sh BUILD_DIR
set -euo pipefail
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/installed" >"$work/install.log"
cp -r "$root/examples/consumer" "$work/source" # away from the tree, so that nothing of it can be found by accident
cmake -S "$work/source" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/installed" \
  -DCMAKE_BUILD_TYPE=Release >"$work/configure.log"
cmake --build "$work/build"
"$work/build/consumer"
"$work/installed/bin/cairn" --version
"$work/installed/bin/cairn" info >"$work/info.txt"
grep libtorch "$work/info.txt"
