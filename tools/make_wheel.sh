#!/usr/bin/env bash
# make_wheel.sh [FOLDER]: a wheel with the program `cairn`, in FOLDER (default: dist).
# `pip install cairn-….whl` puts cairn on the PATH and takes libtorch from
# torch==2.11.0, which the wheel depends on; the system's libraries come along.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
dist=$(mkdir -p "${1:-$CAIRN_ROOT/dist}" && cd "${1:-$CAIRN_ROOT/dist}" && pwd)
cairn_setup build
cairn_build cairn cairn-torch $([[ $CAIRN_GPU == 0 ]] || echo cairn-cuda)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$CAIRN_BUILD_DIR" --prefix "$work/cairn" --component programs --strip >/dev/null
[[ $CAIRN_GPU == 1 ]] || rm -f "$work/cairn/bin/cairn-cuda" # built to be looked at: its libraries are not here
python3 "$CAIRN_ROOT/tools/pack_wheel.py" --tree "$work/cairn" --torch "$(cairn_torch_dir)" --output "$dist"
